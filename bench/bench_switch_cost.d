bench/bench_switch_cost: bench/bench_switch_cost.c agent/bpf/loader.h \
 agent/bpf/unwind_maps.h base/error.h bpf/unwind/map_limits.h \
 bpf/unwind/process_layout.h bpf/unwind/python.h bpf/unwind/stack_hash.h \
 bpf/unwind/stack.h base/contract/frame_kinds.h \
 base/contract/stack_ends.h bpf/unwind/table_layout.h base/event_log.h \
 base/log.h bpf/bpf_counters.h bpf/sample.h agent/sources/switches.h \
 agent/symbols/kallsyms.h agent/sources/source.h \
 agent/process/process_table.h agent/bpf/mmap_events.h \
 agent/process/process.h agent/guard/work.h agent/guard/watchdog.h \
 agent/guard/hung_processes.h agent/symbols/executable.h \
 agent/symbols/file_identity.h agent/elf/build_id.h agent/elf/elf.h \
 agent/elf/file_content.h agent/elf/file_version.h base/labels.h \
 base/id128.h agent/stacks/export_interval.h agent/stacks/calibration.h \
 base/hash_table.h agent/stacks/frame_resolver.h \
 agent/stacks/location_table.h base/profile/profile.h \
 base/contract/profile_types.h base/contract/knobs.h base/string_table.h \
 agent/python/python_code_cache.h agent/stacks/nccl_labels.h \
 agent/stacks/series_quota.h agent/stacks/stack_parts.h \
 agent/stacks/stack_table.h base/clock.h base/time_span.h \
 agent/stacks/wait_class_cache.h agent/stacks/wait_class.h \
 agent/stacks/wait_rules.h base/contract/wait_classes.h base/cleanup.h
agent/bpf/loader.h:
agent/bpf/unwind_maps.h:
base/error.h:
bpf/unwind/map_limits.h:
bpf/unwind/process_layout.h:
bpf/unwind/python.h:
bpf/unwind/stack_hash.h:
bpf/unwind/stack.h:
base/contract/frame_kinds.h:
base/contract/stack_ends.h:
bpf/unwind/table_layout.h:
base/event_log.h:
base/log.h:
bpf/bpf_counters.h:
bpf/sample.h:
agent/sources/switches.h:
agent/symbols/kallsyms.h:
agent/sources/source.h:
agent/process/process_table.h:
agent/bpf/mmap_events.h:
agent/process/process.h:
agent/guard/work.h:
agent/guard/watchdog.h:
agent/guard/hung_processes.h:
agent/symbols/executable.h:
agent/symbols/file_identity.h:
agent/elf/build_id.h:
agent/elf/elf.h:
agent/elf/file_content.h:
agent/elf/file_version.h:
base/labels.h:
base/id128.h:
agent/stacks/export_interval.h:
agent/stacks/calibration.h:
base/hash_table.h:
agent/stacks/frame_resolver.h:
agent/stacks/location_table.h:
base/profile/profile.h:
base/contract/profile_types.h:
base/contract/knobs.h:
base/string_table.h:
agent/python/python_code_cache.h:
agent/stacks/nccl_labels.h:
agent/stacks/series_quota.h:
agent/stacks/stack_parts.h:
agent/stacks/stack_table.h:
base/clock.h:
base/time_span.h:
agent/stacks/wait_class_cache.h:
agent/stacks/wait_class.h:
agent/stacks/wait_rules.h:
base/contract/wait_classes.h:
base/cleanup.h:
