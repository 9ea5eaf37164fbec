// SPDX-License-Identifier: Apache-2.0
// The agent's own counters, beside those of the BPF programs (bpf/bpf_counters.h): declared here only.
// A sentence says what one increment means; a second one, what to do about a loss.
#pragma once

/** X(NAME, figure, loss, sentence): @figure is a field of struct stats (agent/stats.h), @loss as in bpf/bpf_counters.h. */
#define AGENT_COUNTERS(X)                                                                          \
	X(BATCHES_SENT, sender.batches_sent, NO_LOSS,                                              \
	  "Export batches acknowledged by the collector.")                                         \
	X(EXPORT_RETRIES, sender.retries, NO_LOSS,                                                 \
	  "Exports that failed and were tried again. See the log for the collector's answer.")     \
	X(EXPORT_RESENDS, sender.resends, NO_LOSS,                                                 \
	  "Batches sent again: the collector no longer had the definitions of their "              \
	  "stacks. Nothing is lost.")                                                              \
	X(EXPORT_DUPLICATES, sender.duplicates, NO_LOSS,                                           \
	  "Batches that the collector had stored already: an acknowledgement was lost.")           \
	X(SPOOL_FULL, sender.spool.dropped_samples, LOSS,                                          \
	  "Samples dropped: spool full. Check the collector, or raise --spool (memory) or "        \
	  "--spool-disk.")                                                                         \
	X(SPOOL_WRITTEN, sender.spool.written, NO_LOSS,                                            \
	  "Batches written to --spool-dir: the collector did not acknowledge them at once.")       \
	X(SPOOL_FOUND, sender.spool.found, NO_LOSS,                                                \
	  "Batches of earlier starts found in --spool-dir. They are sent.")                        \
	X(SPOOL_DAMAGED, sender.spool.damaged, LOSS,                                               \
	  "Batches in --spool-dir dropped: damaged, cut short, unreadable, or ended three starts " \
	  "of the agent. Check its disk.")                                                         \
	X(SPOOL_FAILURES, sender.spool.failures, NO_LOSS,                                          \
	  "Times that --spool-dir could not be used or written: batches wait in memory. See the "  \
	  "log for the reason.")                                                                   \
	X(SAMPLES_REFUSED, sender.samples_refused, LOSS,                                           \
	  "Samples dropped: the collector refused the batch. See the log for the reason.")         \
	X(SAMPLES_OUT_OF_RANGE, sender.samples_out_of_range, LOSS_WITH_LINE,                       \
	  "Samples dropped by the collector: older than its retention, or ahead of its "           \
	  "clock. Check the clocks of this node and of the collector, or raise its "               \
	  "--retention.")                                                                          \
	X(SAMPLES_SERIES, sender.samples_series, LOSS_WITH_LINE,                                   \
	  "Samples dropped: the collector has too many series. Remove labels with many values.")   \
	X(SAMPLES_OTHER, sender.samples_other, NO_LOSS,                                            \
	  "Samples stored under the label other, without some of their labels: too many series. "  \
	  "Remove labels with many values.")                                                       \
	X(OTLP_BATCHES_SENT, otlp.batches_sent, NO_LOSS,                                           \
	  "Export batches acknowledged by the OTLP endpoint.")                                     \
	X(OTLP_RETRIES, otlp.retries, NO_LOSS,                                                     \
	  "Exports to the OTLP endpoint that failed and were tried again. See the log for its "    \
	  "answer.")                                                                               \
	X(OTLP_SPOOL_FULL, otlp.spool.dropped_samples, LOSS,                                       \
	  "Samples not sent to the OTLP endpoint: spool full. Check the endpoint, or raise "       \
	  "--spool.")                                                                              \
	X(OTLP_SAMPLES_REFUSED, otlp.samples_refused, LOSS,                                        \
	  "Samples dropped: the OTLP endpoint refused the batch. See the log for the reason.")     \
	X(OTLP_PROFILES_REJECTED, otlp.profiles_rejected, LOSS,                                    \
	  "Profiles rejected by the OTLP endpoint, in batches that it accepted. See the log for "  \
	  "the reason.")                                                                           \
	X(STACKS_LOST, profiler.stacks_lost, LOSS,                                                 \
	  "Stacks truncated: the record with the callers of their kernel or user part did not "    \
	  "arrive. Check ring_full; give the agent more CPU.")                                     \
	X(THREADS_OTHER, profiler.threads_other, NO_LOSS,                                          \
	  "Samples of the thread \"other\": their process has more than 32 thread names. Sums "    \
	  "are right; give its threads names that differ by a number only.")                       \
	X(SERIES_OTHER, profiler.series_other, NO_LOSS,                                            \
	  "Samples of the thread \"other\": their process has more than 512 series. Sums are "     \
	  "right; give its threads fewer names.")                                                  \
	X(OFF_CPU_UNSPREAD, profiler.unspread, NO_LOSS,                                            \
	  "Counts of sampled off-CPU intervals that stay in one time slot: their threads' time "   \
	  "covers too many. Sums are right, a slot may have too much. Use a shorter --interval.")  \
	X(MAPPING_EVENTS_LOST, profiler.mapping_events_lost, NO_LOSS,                              \
	  "Mapping events lost: perf ring full. The agent reads those processes' maps again.")     \
	X(SNAPSHOTS_TRUNCATED, profiler.snapshots.early, NO_LOSS,                                  \
	  "Stack snapshots unwound before their unwind tables were loaded. Their stacks may be "   \
	  "truncated; --cache keeps tables over restarts.")                                        \
	X(SNAPSHOTS_FAILED, profiler.snapshots.lost, LOSS,                                         \
	  "Stack snapshots not unwound: the kernel did not run the unwinder. Their samples count " \
	  "with a truncated stack.")                                                               \
	X(PROCESSES_PUBLISHED, profiler.unwind.published, NO_LOSS,                                 \
	  "Times that a process's mappings were loaded into the BPF unwinder.")                    \
	X(PROCESSES_EVICTED, profiler.unwind.dropped, NO_LOSS,                                     \
	  "Processes evicted from the BPF unwinder: memory for mappings full. Their next "         \
	  "stacks are truncated, then they are back. Nothing to do unless it rises all the time.") \
	X(PUBLISH_FAILED, profiler.unwind.publish_failed, NO_LOSS,                                 \
	  "Processes not loaded into the BPF unwinder: map full or no memory. The agent retries.") \
	X(MAPPINGS_DROPPED, profiler.unwind.mappings_dropped, LOSS,                                \
	  "Mappings dropped: process has too many. Stacks through them are truncated. Nothing to " \
	  "do.")                                                                                   \
	X(UNWIND_TABLES_CACHED, profiler.unwind.tables_from_disk, NO_LOSS,                         \
	  "Unwind tables loaded from --cache instead of built.")                                   \
	X(UNWIND_TABLES_EVICTED, profiler.unwind.tables_evicted, NO_LOSS,                          \
	  "Unwind tables evicted to make room for others.")                                        \
	X(UNWIND_TABLES_DROPPED, profiler.unwind.tables_refused, LOSS,                             \
	  "Unwind tables dropped: kernel memory for tables full. Stacks through those files are "  \
	  "truncated; profile fewer processes with --pid.")                                        \
	X(PYTHON_FUNCTIONS_USED, profiler.python.used, NO_LOSS,                                    \
	  "Distinct Python functions in the samples of an export interval.")                       \
	X(PYTHON_FUNCTIONS_READ, profiler.python.reads, NO_LOSS, "Python functions read.")         \
	X(PYTHON_FUNCTIONS_FAILED, profiler.python.failures, LOSS_OF(PYTHON_FUNCTIONS_USED),       \
	  "Nameless Python frames: process gone or memory changed. Nothing to do below 5 % of "    \
	  "python_functions_used; above, report it to cairn's developers.")                        \
	X(PYTHON_FUNCTIONS_REPLACED, profiler.python.reused, LOSS_OF(PYTHON_FUNCTIONS_USED),       \
	  "Nameless Python frames: function replaced before it was read. Nothing to do below 5 % " \
	  "of python_functions_used; above, report it to cairn's developers.")                     \
	X(PYTHON_FUNCTIONS_DROPPED, profiler.python.refused, WARNING,                              \
	  "Python functions not named yet: too many new at once. Names come with later "           \
	  "samples.")                                                                              \
	X(PYTHON_FUNCTIONS_EVICTED, profiler.python.evicted, NO_LOSS,                              \
	  "Python functions evicted to make room for others.")                                     \
	X(JIT_SYMBOLS_DROPPED, profiler.jit.cut, LOSS,                                             \
	  "JIT symbol lists truncated: process has too many functions. The last ones have no "     \
	  "name.")                                                                                 \
	X(JIT_READS_DROPPED, profiler.jit.refused, LOSS,                                           \
	  "JIT symbol lists not read: memory for JIT symbols full. Profile fewer processes with "  \
	  "--pid.")                                                                                \
	X(OPENS_HUNG, profiler.opens.hung, NO_LOSS,                                                \
	  "Opens of files that did not return. The log names the file system; its server does "    \
	  "not answer.")                                                                           \
	X(OPENS_SKIPPED, profiler.opens.refused, NO_LOSS,                                          \
	  "Files not opened: their file system hangs, or did so a moment ago. The agent retries.") \
	X(FILES_CACHED, profiler.identities.found, NO_LOSS,                                        \
	  "Files whose identity was in --cache: not hashed again.")                                \
	X(FILES_CACHE_DAMAGED, profiler.identities.damaged, NO_LOSS,                               \
	  "Identities of files dropped: --cache is damaged there. Those files are hashed again; "  \
	  "check its disk.")                                                                       \
	X(LINE_READS_FAILED, profiler.line_failures, NO_LOSS,                                      \
	  "Files whose source lines were not read: damaged, too large, or the reader did not "     \
	  "start. "                                                                                \
	  "Their frames show functions only. --log-level debug names each file.")                  \
	X(LAUNCHER_RESTARTS, launcher_restarts, WARNING,                                           \
	  "Restarts of the launcher of source-line readers: it died. Check the kernel's log for "  \
	  "the OOM killer.")                                                                       \
	X(ANALYSES_PUT_OFF, profiler.analyses_put_off, WARNING,                                    \
	  "Analyses of a process put off: the agent's CPU time for it per export interval is "     \
	  "used up. Its new functions get names later; the log names the process.")                \
	X(ATTRIBUTES_REFUSED, profiler.attributes_refused, NO_LOSS,                                \
	  "Resource attributes not made labels: not allowed, reserved or too many. Name those "    \
	  "that you want in --resource-attributes.")                                               \
	X(PODS_LATE, profiler.pods_late, NO_LOSS,                                                  \
	  "Processes whose labels changed after samples were shipped: their pod became known "     \
	  "late, or was renamed by its labels. Check pod_requests_failed.")                        \
	X(SAMPLES_EXCLUDED, profiler.excluded, NO_LOSS,                                            \
	  "Samples not shipped: their process is not to be profiled (cairn.dev/profile, "          \
	  "--exclude-namespaces, a relabel rule).")                                                \
	X(RELABEL_LABELS_DROPPED, profiler.relabeled.labels_dropped, WARNING,                      \
	  "Labels of relabel rules dropped: reserved or invalid name, over 32 per process, or "    \
	  "over 16 KiB. Change the rules of --relabel.")                                           \
	X(RELABEL_MATCHES_STOPPED, profiler.relabeled.matches_stopped, WARNING,                    \
	  "Matches of relabel rules stopped: their regex takes too long with this value, and "     \
	  "counts as not matching. Use a simpler one, without nested repetition.")                 \
	X(COUNTS_NOT_HELD, profiler.held_full, WARNING,                                            \
	  "Counts shipped without their pod's labels: too many waited for their pods. Check "      \
	  "pod_requests_failed.")                                                                  \
	X(PODS_LISTED, pods.lists, NO_LOSS, "Lists of this node's pods.")                          \
	X(POD_EVENTS, pods.events, NO_LOSS, "Events of this node's pods.")                         \
	X(POD_REQUESTS_FAILED, pods.failures, NO_LOSS,                                             \
	  "Requests to the Kubernetes API server that failed. New pods stay without labels "       \
	  "meanwhile. See the log for the reason.")                                                \
	X(PODS_UNREADABLE, pods.dropped, WARNING,                                                  \
	  "Pods and their events dropped: too large, or malformed. Their processes have no pod's " \
	  "labels. Report it to cairn's developers.")                                              \
	X(PODS_DROPPED, pod_table.dropped, WARNING,                                                \
	  "Pods dropped: the node has more than 1024. Their processes have no pod's labels. Run "  \
	  "fewer pods on it.")                                                                     \
	X(CONTAINERS_FOUND, containers.found, NO_LOSS,                                             \
	  "Containers of Docker and Podman whose name was read.")                                  \
	X(CONTAINERS_UNREADABLE, containers.unreadable, NO_LOSS,                                   \
	  "Files of Docker's or Podman's containers not read: too large, malformed, or owned by "  \
	  "another user. Their processes have the container's id only; see --docker, --podman.")   \
	X(SHEDDING_CHANGES_DROPPED, profiler.budget.changes_lost, WARNING,                         \
	  "Load-shedding changes missing in their series: too many in one export interval. The "   \
	  "log has them.")                                                                         \
	X(PROGRAMS_UNMEASURED, profiler.budget.programs_unmeasured, WARNING,                       \
	  "Measurements without one of the agent's BPF programs: it has more than 64. The "        \
	  "overhead is higher than reported. Report it to cairn's developers.")                    \
	X(BOOSTS_BEGUN, boosts_begun, NO_LOSS,                                                     \
	  "Boosts begun at the collector's request. See the log for what was requested.")          \
	X(BOOSTS_REFUSED, boosts_refused, NO_LOSS,                                                 \
	  "Boosts of the collector refused: --boost-hz is 0. Raise it to allow them.")             \
	X(CALLS_REFUSED, calls_refused, WARNING,                                                   \
	  "System calls refused by the agent's own seccomp filter. The log names each; report it " \
	  "to cairn's developers.")                                                                \
	X(EVENTS_DROPPED, profiler.events_dropped, NO_LOSS,                                        \
	  "Log lines dropped: event queue full. See the lines just before.")

enum agent_counter {
#define X(name, figure, loss, sentence) AGENT_COUNTER_##name,
	AGENT_COUNTERS(X)
#undef X
		AGENT_COUNTER_COUNT,
};
