# cairn: an eBPF continuous profiler for fleets.
# `make help` lists the targets. Everything that is built lies under build/.

# ARCH=aarch64: programs for another machine, linked with its libraries, which are unpacked below build/.
ARCH := $(shell uname -m)
CROSS := $(filter-out $(shell uname -m),$(ARCH))
SYSROOT := $(CROSS:%=$(CURDIR)/build/sysroot/%)
BUILD ?= build$(CROSS:%=/%)
SANITIZE ?=
V ?=
COMMA := ,
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=$(shell nproc) --no-print-directory
endif

CC := $(if $(CROSS),$(CROSS)-linux-gnu-gcc --sysroot=$(SYSROOT),gcc)
CXX := $(if $(CROSS),$(CROSS)-linux-gnu-g++ --sysroot=$(SYSROOT),g++)
CLANG := clang
BPF_ARCH := $(if $(filter aarch64,$(ARCH)),arm64,x86)
# As Debian and images name it.
DEBIAN_ARCH := $(if $(filter aarch64,$(ARCH)),arm64,amd64)
# What runs a program of ARCH here, if that is another machine's: an emulator.
RUN := $(or $(RUN),$(CROSS:%=qemu-% -L $(SYSROOT)))
export RUN

# The one version: packages, images, man pages and what the programs print.
VERSION := $(shell sed -n 's/^\#define CAIRN_VERSION "\(.*\)"$$/\1/p' base/version.h)

# For the day that somebody finds a place to write to. Sanitizers have checks of their own. A gcc before 12 warns of level 3.
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE
FORTIFY_LEVEL := $(if $(shell echo | $(CC) -O2 -Werror $(FORTIFY)=3 -include features.h -E -xc - 2>&1 >/dev/null),2,3)
BRANCH_PROTECTION := $(if $(filter x86_64,$(ARCH)),-fcf-protection)$(if $(filter aarch64,$(ARCH)),-mbranch-protection=standard)
HARDENING := $(if $(SANITIZE),,$(FORTIFY)=$(FORTIFY_LEVEL) -fstack-protector-strong $(BRANCH_PROTECTION)) -fPIE

# A release's bytes do not depend on the folder that it is built in.
RELEASE ?=
PATHS := $(if $(RELEASE), -ffile-prefix-map=$(CURDIR)=/usr/src/cairn-$(VERSION))

CFLAGS := -std=gnu11 -O2 -g $(HARDENING)$(PATHS) -D_GNU_SOURCE -I. -I$(BUILD)/gen -MMD -MP -fno-omit-frame-pointer \
	  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror -pthread
LDFLAGS := -pthread -pie -Wl,--as-needed,-z,relro,-z,now
# SANITIZE=thread: races of threads; any other value: memory and undefined behaviour.
ifneq ($(SANITIZE),)
SANITIZERS := $(if $(filter thread,$(SANITIZE)),-fsanitize=thread,-fsanitize=address$(COMMA)undefined)
# GCC 12 takes UBSan's checks of pointers for reads of arrays that are too small.
CFLAGS += $(SANITIZERS) -fno-sanitize-recover=undefined -Wno-stringop-overread
LDFLAGS += $(SANITIZERS)
endif
# For collector/store/rocksdb/rocksdb_files.cc: RocksDB's C API has no file system of one's own.
CXXFLAGS = -std=gnu++17 -Wno-unused-parameter $(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes -Wshadow,$(CFLAGS))
# Where the kernel's asm/ headers of the machine are.
ASM_INCLUDE := $(SYSROOT)/usr/include/$(shell $(CC) -dumpmachine)
BPF_CFLAGS := -target bpf -O2 -g$(PATHS) -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -I. -MMD -MP \
	      -idirafter $(ASM_INCLUDE) -Wall -Wextra -Werror \
	      -Wno-unused-parameter -Wno-missing-declarations

ifeq ($(V),)
.SILENT:
endif
say = printf '  %-7s %s\n' $(1) $(2)

BASE_LIBS := -ldw -lelf -lcurl -lgnutls -liberty -lxxhash -lyaml -lpcre2-8 -lz -lm
PROTO_LIBS := -lgrpc -lgpr -lnghttp2 -lprotobuf-c -lz $(BASE_LIBS)
AGENT_LIBS := -lnettle -lbpf -lelf -lcapstone -llzma -lz -ljansson $(BASE_LIBS)
COLLECTOR_LIBS := -lrocksdb -lstdc++ -lmicrohttpd -ljansson -lzstd -lz -lm $(PROTO_LIBS)
CLI_LIBS := -lcurl -lncurses -ltinfo -ljansson

# A folder is a library, its main.c aside; the folders in it are its rooms.
sources = $(filter-out $(1)/main.c,$(sort $(shell find $(1) -name '*.c' -o -name '*.cc')))
objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))

PROTO_GEN := $(patsubst proto/%.proto,$(BUILD)/gen/%.pb-c.c,$(wildcard proto/*/*.proto proto/*/*/*.proto))
BPF_PROGRAMS := $(shell find bpf -name '*.bpf.c')
BPF_SKELETONS := $(patsubst %.bpf.c,$(BUILD)/gen/%.skel.h,$(notdir $(BPF_PROGRAMS)))

BASE_A := $(BUILD)/lib/base.a
PROTO_A := $(BUILD)/lib/proto.a
AGENT_A := $(BUILD)/lib/agent.a
COLLECTOR_A := $(BUILD)/lib/collector.a
CLI_A := $(BUILD)/lib/cli.a
PROGRAMS := $(BUILD)/cairn $(BUILD)/cairn-agent $(BUILD)/cairn-collector

.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

.PHONY: all
all: packages $(PROGRAMS) ## build build/cairn, build/cairn-agent and build/cairn-collector

.PHONY: help
help: ## list the targets
	awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- set-up ---------------------------------------------------------------------------------

.PHONY: packages packages-%
packages: $(BUILD)/packages.stamp
$(BUILD)/packages.stamp: packages.txt deploy/install-packages
	mkdir -p $(@D)
	deploy/install-packages packages.txt
ifneq ($(CROSS),)
	deploy/install-packages packages-cross.txt
	deploy/release/make-sysroot $(DEBIAN_ARCH) $(SYSROOT)
endif
	touch $@
packages-%: packages # what only some targets need: packages-kernels.txt, packages-bench.txt, packages-fuzz.txt, packages-truth.txt
	deploy/install-packages packages-$*.txt

# ---- libraries and programs -----------------------------------------------------------------
# Nothing compiles before its packages are there: hence "| $(BUILD)/packages.stamp".

# All is compiled anew when the flags change.
FLAGS := $(CFLAGS) $(LDFLAGS)
.PHONY: flags-changed
$(BUILD)/flags: flags-changed
	mkdir -p $(@D)
	echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,CC,$<)
	$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/obj/%.o: %.cc $(BUILD)/flags | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,CXX,$<)
	$(CXX) $(CXXFLAGS) -c $< -o $@

# They run once: compiling is what takes long. Some unwind or probe their own functions, as other people's compilers make them.
$(BUILD)/obj/tests/unit/%.o: CFLAGS += -O0 -U_FORTIFY_SOURCE $(foreach flag,$(BRANCH_PROTECTION),$(firstword $(subst =, ,$(flag)))=none)

# Generated code is not held to our warnings.
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/flags | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,CC,$<)
	$(CC) $(filter-out -W%,$(CFLAGS)) -c $< -o $@

$(BUILD)/lib/%.a:
	mkdir -p $(@D)
	$(call say,AR,$@)
	rm -f $@
	ar rcs $@ $^

$(BASE_A): $(call objects,$(call sources,base))
$(PROTO_A): $(call objects,$(call sources,proto)) $(patsubst $(BUILD)/gen/%.c,$(BUILD)/obj/gen/%.o,$(PROTO_GEN))
$(AGENT_A): $(call objects,$(call sources,agent))
$(COLLECTOR_A): $(call objects,$(call sources,collector)) $(BUILD)/obj/gen/web_assets.o

$(BUILD)/cairn-agent: $(BUILD)/obj/agent/main.o $(AGENT_A) $(PROTO_A) $(BASE_A)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(AGENT_LIBS) $(PROTO_LIBS) -o $@

# What our own code allocates is accounted for (base/memory_account.h).
ACCOUNTED := $(addprefix -Wl$(COMMA)--wrap=,malloc calloc realloc reallocarray strdup strndup free qsort qsort_r)
$(BUILD)/cairn-collector: $(BUILD)/obj/collector/main.o $(COLLECTOR_A) $(PROTO_A) $(BASE_A)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $(ACCOUNTED) $^ $(COLLECTOR_LIBS) -o $@

$(CLI_A): $(call objects,$(call sources,cli))

$(BUILD)/cairn: $(BUILD)/obj/cli/main.o $(CLI_A) $(AGENT_A) $(PROTO_A) $(BASE_A)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(AGENT_LIBS) $(PROTO_LIBS) $(CLI_LIBS) -o $@

# ---- generated: messages, BPF skeletons, the page ---------------------------------------------

$(BUILD)/gen/%.pb-c.c: proto/%.proto | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,PROTO,$<)
	protoc-c --proto_path=proto --c_out=$(BUILD)/gen $<
$(BUILD)/gen/%.pb-c.h: $(BUILD)/gen/%.pb-c.c ;
# What includes them, also through headers.
$(call objects,$(call sources,proto) $(call sources,collector)): | $(PROTO_GEN)

define bpf_rule
$(BUILD)/bpf/$(notdir $(1:.c=.o)): $(1) | $(BUILD)/packages.stamp
	mkdir -p $$(@D)
	$$(call say,BPF,$$<)
	$$(CLANG) $$(BPF_CFLAGS) -c $$< -o $$@
endef
$(foreach program,$(BPF_PROGRAMS),$(eval $(call bpf_rule,$(program))))
$(BUILD)/gen/%.skel.h: $(BUILD)/bpf/%.bpf.o | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,SKEL,$@)
	bpftool gen skeleton $< name $*_bpf > $@
$(call objects,$(shell grep -rl --include='*.c' 'skel\.h"' agent)): | $(BPF_SKELETONS)

# What base/contract/ and the counters declare, as JSON: the page's module, the API's description and the docs are made of it.
CONTRACT := $(BUILD)/gen/contract.json
CONTRACT_OBJECTS := $(addprefix $(BUILD)/obj/collector/,metrics/metrics.o limits/tenant_limits.o limits/limit_file.o limits/tenant_limit.o access/access_file.o)
$(BUILD)/generate/contract: $(BUILD)/obj/generate/contract.o $(CONTRACT_OBJECTS) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(BASE_LIBS) -o $@
$(CONTRACT): $(BUILD)/generate/contract
	mkdir -p $(@D)
	$(call say,JSON,$@)
	$(RUN) $< > $@
$(BUILD)/gen/web/contract.js: $(CONTRACT) generate/render
	mkdir -p $(@D)
	$(call say,RENDER,$@)
	generate/render $(CONTRACT) page > $@
$(BUILD)/gen/web/openapi.yaml: collector/openapi.yaml $(CONTRACT) generate/render
	mkdir -p $(@D)
	$(call say,RENDER,$@)
	generate/render $(CONTRACT) fill $< > $@

WEB_FILES := $(filter-out %.md,$(wildcard collector/web/*)) $(BUILD)/gen/web/contract.js $(BUILD)/gen/web/openapi.yaml
$(BUILD)/gen/web_assets.c: collector/embed-web $(WEB_FILES)
	mkdir -p $(@D)
	$(call say,EMBED,collector/web)
	collector/embed-web $(WEB_FILES) > $@

# Files that have parts made of the contract.
CONTRACT_FILES := collector/openapi.yaml $(wildcard docs/*.md)
.PHONY: docs docs-check
docs: packages $(CONTRACT) ## renew the generated parts of the docs and of the API's description
	generate/render $(CONTRACT) renew $(CONTRACT_FILES)
	generate/limits > docs/limits.md
docs-check: packages $(CONTRACT)
	generate/render $(CONTRACT) check $(CONTRACT_FILES)
	generate/limits | cmp -s - docs/limits.md || { echo "docs/limits.md is stale: run \`make docs\`" >&2; exit 1; }

# ---- installing -----------------------------------------------------------------------------

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
MAN_PAGES := $(patsubst docs/man/%,$(BUILD)/man/%,$(wildcard docs/man/*))
COMPLETION := $(BUILD)/man/cairn.bash
$(MAN_PAGES): $(BUILD)/man/%: docs/man/% generate/manual CHANGELOG.md $(PROGRAMS)
	mkdir -p $(@D)
	$(call say,MAN,$@)
	generate/manual page $< $(BUILD) > $@
$(COMPLETION): generate/manual $(PROGRAMS)
	mkdir -p $(@D)
	$(call say,BASH,$@)
	generate/manual completion $(BUILD) > $@
UNITS := $(patsubst deploy/%,$(BUILD)/%,$(wildcard deploy/systemd/*.service))
$(UNITS): $(BUILD)/%: deploy/% flags-changed
	mkdir -p $(@D)
	sed 's#@BINDIR@#$(PREFIX)/bin#; s#@SYSCONFDIR@#$(SYSCONFDIR)#' $< > $@

# What is installed, as lines of mode, file and its place below DESTDIR.
define INSTALLED
$(foreach program,$(PROGRAMS),0755 $(program) $(PREFIX)/bin/$(notdir $(program))
)$(foreach page,$(MAN_PAGES),0644 $(page) $(PREFIX)/share/man/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page))
)$(foreach program,$(PROGRAMS),0644 $(COMPLETION) $(PREFIX)/share/bash-completion/completions/$(notdir $(program))
)$(foreach unit,$(UNITS),0644 $(unit) $(UNITDIR)/$(notdir $(unit))
)0644 deploy/systemd/cairn-collector.sysusers $(SYSUSERSDIR)/cairn-collector.conf
endef
SETTINGS := $(notdir $(wildcard deploy/settings/*.yaml))
install uninstall: export FILES = $(INSTALLED)

# ---- tests ----------------------------------------------------------------------------------

# TEST=..., as a failed test's line gives it: only that one. Of unit tests a folder or a program, too.
ifneq ($(origin TEST),command line)
TEST :=
endif
# The command that repeats a test of this target, but for TEST=.
repeat = "make $(strip $(foreach name,BUILD SANITIZE CC CLANG,$(if $(findstring command,$(origin $(name))),\
	$(name)='$($(name))')) $@)"
# Its tests are pytest's: --again with it where they measure what the kernel schedules.
pytest = tests/run-pytest --make $(repeat) $(if $(TEST),--test "$$TEST")

# Unit tests are linked by gold where there is one, in half the time: they are 300 programs. It warns of each function of ASan.
LINK_FAST := $(if $(CROSS)$(SANITIZE),,$(if $(shell $(CC) -fuse-ld=gold -Wl,--version 2>/dev/null),-fuse-ld=gold))

UNIT_LIBS_base = $(BASE_A)
UNIT_LIBS_proto = $(PROTO_A) $(BASE_A)
UNIT_LIBS_agent = $(AGENT_A) $(PROTO_A) $(BASE_A)
UNIT_LIBS_collector = $(COLLECTOR_A) $(PROTO_A) $(BASE_A)
UNIT_LIBS_cli = $(CLI_A) $(PROTO_A) $(BASE_A)
UNIT_LINK_base = $(BASE_LIBS) -ljansson
UNIT_LINK_proto = $(PROTO_LIBS)
UNIT_LINK_agent = $(AGENT_LIBS) $(PROTO_LIBS)
UNIT_LINK_collector = $(COLLECTOR_LIBS)
UNIT_LINK_cli = $(CLI_LIBS) $(PROTO_LIBS)
UNIT_LIBS_bpf = $(UNIT_LIBS_agent)
UNIT_LINK_bpf = $(UNIT_LINK_agent)
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(shell find tests/unit -name 'test_*.c'))
# The programs of unit tests of these names, wherever their room is.
unit_programs = $(filter $(addprefix %/test_,$(1)),$(UNIT_TESTS))

define unit_rule
$(filter $(BUILD)/tests/$(1)/%,$(UNIT_TESTS)): $(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_LIBS_$(1))
	mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(CC) $$(LDFLAGS) $(LINK_FAST) $$^ -lcmocka $(UNIT_LINK_$(1)) -o $$@
endef
$(foreach folder,base bpf proto agent collector cli,$(eval $(call unit_rule,$(folder))))

$(call unit_programs,memory_account chunk_helpers symbol_spaces): LDFLAGS += $(ACCOUNTED)

UNIT_OBJECTS := $(UNIT_TESTS:$(BUILD)/tests/%=$(BUILD)/obj/tests/unit/%.o)
$(UNIT_OBJECTS): | $(PROTO_GEN) $(BPF_SKELETONS)

.PHONY: unit-objects
unit-objects: packages $(UNIT_OBJECTS) ## compile the unit tests

# The doubles of the GPU's libraries, under the names of the real ones. Test equipment.
GPU_DOUBLES := $(BUILD)/tests/gpu/libnvidia-ml.so.1 $(BUILD)/tests/gpu/libcuda.so.1 $(BUILD)/tests/gpu/libnccl.so.2
CUPTI_DOUBLES := $(BUILD)/tests/gpu/libcairn_cupti.so $(BUILD)/tests/gpu/libcupti.so.12
# The driver's exports in two other shapes (cuda_double_export.h).
GPU_SHAPES := $(BUILD)/tests/gpu/shape1/libcuda.so.1 $(BUILD)/tests/gpu/shape2/libcuda.so.1
$(BUILD)/tests/gpu/libnvidia-ml.so.1: tests/gpu/nvml_double.c tests/gpu/nvml_double.h | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) -std=gnu11 -O1 -g -I. -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wl,-soname,$(@F) $< -o $@
# Without a symbol table, as the real driver.
$(BUILD)/tests/gpu/libcuda.so.1 $(GPU_SHAPES): $(wildcard tests/gpu/cuda_double*.[ch]) | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) -std=gnu11 -O2 -fno-optimize-sibling-calls -s -I. -DSHAPE=$(or $(patsubst shape%,%,$(filter shape%,$(notdir $(@D)))),0) \
		-fPIC -shared -Wall -Wextra -pthread -Wl,-soname,$(@F) $(filter %.c,$^) -o $@
$(BUILD)/tests/gpu/libnccl.so.2: tests/gpu/nccl_double.c | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) -std=gnu11 -O1 -g -fno-omit-frame-pointer -fcf-protection=none -D_GNU_SOURCE -fPIC -shared -fvisibility=hidden \
		-Wall -Wextra -Wl,-soname,$(@F) $< -o $@
$(BUILD)/tests/gpu/%_client: tests/gpu/%_client.c tests/gpu/cuda_double.h | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,CC,$<)
	$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE -I. -Wall -Wextra $< -o $@
$(call unit_programs,nvml gpu_usage): | $(GPU_DOUBLES)

# The CUPTI helper, an opt-in library for profiled processes: frame pointers and no endbr64, for its probe.
HELPER_CFLAGS := -std=gnu11 -O2 -g -D_GNU_SOURCE -I. -fPIC -shared -fvisibility=hidden -fcf-protection=none \
		 -fno-omit-frame-pointer -Wall -Wextra -Wshadow -Werror -pthread
HELPER_SOURCES := helper/cupti_helper.c helper/cupti_shared.h helper/cupti_abi.h
# Folders with cupti.h, cuda.h and crt/: libcupti-dev's, or those of the wheels nvidia-cuda-{cupti,runtime,nvcc}.
CUPTI_INCLUDE ?= /usr/include /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include
.PHONY: cupti
cupti: $(BUILD)/libcairn_cupti.so ## build the CUPTI helper; CUPTI_INCLUDE='folders of headers'
$(BUILD)/libcairn_cupti.so: $(HELPER_SOURCES)
	mkdir -p $(@D)
	echo '#include <cupti.h>' | $(CC) -E $(patsubst %,-idirafter %,$(CUPTI_INCLUDE)) -xc - > /dev/null 2>&1 || \
		{ echo "cupti.h is not in $(CUPTI_INCLUDE), or not all that it includes: docs/gpu.md says where to get it" >&2; exit 1; }
	$(call say,LD,$@)
	$(CC) $(HELPER_CFLAGS) $(patsubst %,-idirafter %,$(CUPTI_INCLUDE)) -Wl,-soname,$(@F) $< -o $@
# The same with a stand-in for the headers, beside a double of libcupti. Test equipment.
$(BUILD)/tests/gpu/libcairn_cupti.so: $(HELPER_SOURCES) tests/gpu/cupti/cupti.h | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(HELPER_CFLAGS) -Itests/gpu/cupti -Wl,-soname,$(@F) $< -o $@
$(BUILD)/tests/gpu/libcupti.so.12: tests/gpu/cupti_double.c tests/gpu/cupti_double.h tests/gpu/cupti/cupti.h | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) -std=gnu11 -O1 -g -I. -Itests/gpu/cupti -fPIC -shared -Wall -Wextra -pthread -Wl,-soname,$(@F) $< -o $@
$(call unit_programs,cupti_session): | $(CUPTI_DOUBLES)
$(call unit_programs,probe_site gpu_driver gpu_source gpu_probes gpu_memory gpu_counts gpu_graphs): | $(GPU_DOUBLES) $(GPU_SHAPES)

# So many processes of pytest, or fuzzers, run at a time. Tests that measure what others disturb are marked alone.
TEST_WORKERS ?= 2
# Programs of unit tests: they wait half of their time, those with probes nearly all of it. End-to-end tests and browsers wait more.
UNIT_WORKERS ?= $(if $(filter 1,$(TEST_WORKERS)),1,3)
E2E_WORKERS ?= $(if $(filter 1,$(TEST_WORKERS)),1,4)
BROWSER_WORKERS ?= $(if $(filter 1,$(TEST_WORKERS)),1,4)

.PRECIOUS: $(BUILD)/obj/%.o $(BUILD)/gen/%.c $(BUILD)/bpf/%.bpf.o

# They put probes into the same files, which takes turns in the kernel.
PROBING_TESTS := $(call unit_programs,gpu_driver gpu_probes gpu_source gpu_memory gpu_counts gpu_graphs gpu_programs gpu_spin \
	probe_link probe_site)

# A folder's, a program, or the program of one test.
unit_chosen = $(filter $(BUILD)/tests/$(TEST)/%,$(UNIT_TESTS)) \
	      $(foreach program,$(UNIT_TESTS),$(if $(filter $(program) $(program)/%,$(BUILD)/tests/$(TEST)),$(program)))

.PHONY: unit
unit: packages $(if $(TEST),$(unit_chosen),$(UNIT_TESTS)) ## build and run the unit tests; TEST=agent/gpu, TEST=base/test_log: only these
ifeq ($(TEST),)
	tests/run-unit --make $(repeat) --workers $(UNIT_WORKERS) "$(PROBING_TESTS)" $(filter-out $(PROBING_TESTS),$(UNIT_TESTS))
else
	tests/run-unit --make $(repeat) $(or $(filter $(BUILD)/tests/$(TEST)/%,$(UNIT_TESTS)),$(BUILD)/tests/$(TEST))
endif

.PHONY: unit-%
unit-%:
	$(MAKE) unit TEST=$*

.PHONY: e2e
e2e: packages $(PROGRAMS) workloads $(GPU_DOUBLES) $(CUPTI_DOUBLES) $(BUILD)/tests/gpu/spinning_client ## run the end-to-end tests: real agent, real collector, root
	$(pytest) --again --workers $(E2E_WORKERS) --together runs tests/e2e

# Unit tests with a double of malloc() and so on, of which each place's calls fail once: the parts that are ours are
# linked with other names for them. A test that loads BPF programs has libbpf's and the kernel's memory in it, too.
ALLOCATIONS := $(BUILD)/allocations
ALLOCATING_TESTS := $(UNIT_TESTS:$(BUILD)/tests/%=$(ALLOCATIONS)/%)
$(ALLOCATIONS)/lib/%.a: $(BUILD)/lib/%.a tests/allocations/redefined.txt
	mkdir -p $(@D)
	objcopy --redefine-syms=tests/allocations/redefined.txt $< $@
$(ALLOCATIONS)/obj/%.o: $(BUILD)/obj/tests/unit/%.o
	mkdir -p $(@D)
	objcopy --rename-section .text=test_text $< $@
define allocating_rule
$(filter $(ALLOCATIONS)/$(1)/%,$(ALLOCATING_TESTS)): $(ALLOCATIONS)/%: $(ALLOCATIONS)/obj/%.o \
		$(BUILD)/obj/tests/allocations/allocation_failures.o $(UNIT_LIBS_$(1):$(BUILD)/%=$(ALLOCATIONS)/%)
	mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(CC) $$(LDFLAGS) -Wl,--wrap=_cmocka_run_group_tests $$^ -lcmocka $(UNIT_LINK_$(1)) -o $$@
endef
$(foreach folder,base bpf proto agent collector cli,$(eval $(call allocating_rule,$(folder))))
# Those that need the kernel's memory, or a device's, or make keys for each run are left out.
ALLOCATING_CHOSEN = $(if $(TEST),$(unit_chosen:$(BUILD)/tests/%=$(ALLOCATIONS)/%),$(filter-out $(addprefix $(ALLOCATIONS)/,\
	agent/bpf/% agent/gpu/% agent/probes/% agent/sources/% agent/dump/% agent/test_% base/tls/% bpf/%),$(ALLOCATING_TESTS)))
ALLOCATION_SECONDS ?= 20
.PHONY: allocation-failures
allocation-failures: packages $(ALLOCATING_CHOSEN) ## unit tests with each allocation failing once, ALLOCATION_SECONDS=20 a program: TEST=base, TEST=base/test_labels
	tests/run-allocations --make $(repeat) --workers $(TEST_WORKERS) --seconds $(ALLOCATION_SECONDS) $(ALLOCATING_CHOSEN)

CHAOS := $(addprefix $(BUILD)/tests/chaos/,virtual_agents faults.so drop.bpf.o)
$(BUILD)/tests/chaos/virtual_agents: tests/chaos/virtual_agents.c $(AGENT_A) $(PROTO_A) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(CFLAGS) -MF $@.d $< $(AGENT_A) $(PROTO_A) $(BASE_A) $(LDFLAGS) $(AGENT_LIBS) $(PROTO_LIBS) -o $@
$(BUILD)/tests/chaos/faults.so: tests/chaos/faults.c | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE -fPIC -shared -Wall -Wextra -Werror $< -o $@
$(BUILD)/tests/chaos/drop.bpf.o: tests/chaos/drop.bpf.c | $(BUILD)/packages.stamp
	mkdir -p $(@D)
	$(call say,BPF,$<)
	$(CLANG) -target bpf -O2 -g -idirafter $(ASM_INCLUDE) -Wall -Werror -c $< -o $@

.PHONY: chaos
chaos: packages $(PROGRAMS) $(CHAOS) workloads ## real processes under faults and hostile peers, CHAOS_SECONDS=3 each: disks, memory, clocks, networks
	$(pytest) --workers $(TEST_WORKERS) tests/chaos

# Weighted launch counts need two minutes of on phases, whatever the machine: `make test` leaves them out.
.PHONY: gpu-verdicts
gpu-verdicts: packages $(PROGRAMS) $(GPU_DOUBLES) ## run the GPU verdicts and launch counts end to end, with the test driver
	GPU_VERDICTS=1 python3 -m pytest -q tests/e2e/test_gpu_verdict.py tests/e2e/test_gpu_launches.py

# Alone on the machine: a service that gets no CPU has other spikes than the injected one. It takes 7 minutes.
.PHONY: scenarios
scenarios: packages $(PROGRAMS) workloads $(GPU_DOUBLES) ## inject ten faults into real processes: `cairn spikes` must name nine first; SCENARIOS="reload disk", SCENARIO_SEED=1; SCENARIO_KEEP=FOLDER, later SCENARIO_REPLAY=FOLDER
	nice -n -19 python3 -m pytest -q tests/scenarios

.PHONY: browser
browser: packages $(PROGRAMS) ## run the page in headless Chromium; pictures go to build/artefacts
	$(pytest) --workers $(BROWSER_WORKERS) --together collector_url,real_url tests/browser

# A test package of npm's, of this version; npm checks its hash.
AXE_VERSION := 4.10.3
AXE := $(BUILD)/axe/package/axe.min.js
$(AXE):
	mkdir -p $(BUILD)/axe
	cd $(BUILD)/axe && npm pack --silent axe-core@$(AXE_VERSION) && tar -xzf axe-core-$(AXE_VERSION).tgz
	touch $@

.PHONY: accessibility
accessibility: packages $(AXE) ## check the page by axe-core, which npm fetches
	$(pytest) tests/browser/test_accessibility.py

# Programs that are no Debian packages, of these versions, from their Go modules: they need a Go of 2025.
HELM_VERSION := v3.19.5
KUBECONFORM_VERSION := v0.7.0
HELM := $(abspath $(BUILD))/tools/helm-$(HELM_VERSION)/helm
KUBECONFORM := $(abspath $(BUILD))/tools/kubeconform-$(KUBECONFORM_VERSION)/kubeconform
$(HELM): GO_PACKAGE := helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
$(KUBECONFORM): GO_PACKAGE := github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)
# Helm's own build writes what Kubernetes it was made with; without that it takes itself to be of 1.20.
$(HELM): GO_FLAGS := -ldflags "$(foreach package,chartutil lint/rules,$(foreach part,Major=1 Minor=34,\
	-X helm.sh/helm/v3/pkg/$(package).k8sVersion$(part)))"
$(HELM) $(KUBECONFORM):
	$(call say,GO,$(notdir $@))
	GOBIN=$(@D) go install $(GO_FLAGS) $(GO_PACKAGE)

# The oldest version that the chart is for, and that of the cluster.
KUBERNETES_VERSIONS := v1.30.14 v1.34.2
KUBERNETES := $(lastword $(KUBERNETES_VERSIONS))
SCHEMAS := $(abspath $(BUILD))/tools/schemas
# Of Prometheus's operator and of OpenShift.
DEFINITIONS := $(addprefix github.com/prometheus-operator/prometheus-operator@v0.85.0:example/prometheus-operator-crd/monitoring.coreos.com_,\
	podmonitors.yaml prometheusrules.yaml) \
	github.com/openshift/api@v0.0.0-20240830023148-b7d0481c9094:security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml
$(SCHEMAS)/v%: tests/deploy/make-schemas
	$(call say,SCHEMAS,v$*)
	tests/deploy/make-schemas $@ k8s.io/kubernetes@v$* $(DEFINITIONS)
	touch $@

.PHONY: manifests
manifests: packages $(HELM) ## render the Helm chart into the Kubernetes manifests
	HELM=$(HELM) deploy/helm/render

# Helm's tests skip where nobody has built one.
.PHONY: deploy-check chart
deploy-check: packages ## check the Kubernetes manifests; with Helm, where it was built, the chart, too
	HELM=$(wildcard $(HELM)) KUBECONFORM=$(wildcard $(KUBECONFORM)) SCHEMAS=$(wildcard $(SCHEMAS)) $(pytest) tests/deploy
chart: packages $(PROGRAMS) $(HELM) $(KUBECONFORM) $(KUBERNETES_VERSIONS:%=$(SCHEMAS)/%) ## build Helm and kubeconform, and check the chart and the manifests by them
	$(MAKE) deploy-check

CLUSTER := $(abspath $(BUILD))/cluster/$(KUBERNETES)
CLUSTER_PROGRAMS := $(addprefix $(CLUSTER)/,kube-apiserver kubelet)
$(CLUSTER)/%: tests/cluster/build
	tests/cluster/build $(CLUSTER) $(KUBERNETES) $*
	touch $@
$(CLUSTER)/kubelet: | $(CLUSTER)/kube-apiserver # one module, one at a time
.PHONY: cluster
cluster: packages packages-cluster $(PROGRAMS) workloads $(HELM) $(SCHEMAS)/$(KUBERNETES) $(CLUSTER_PROGRAMS) ## Kubernetes' real API server and kubelet on this machine: chart, manifests, labels of pods
	CLUSTER_PROGRAMS=$(CLUSTER) CLUSTER_DEFINITIONS=$(SCHEMAS)/$(KUBERNETES) HELM=$(HELM) unshare --net --mount $(pytest) tests/cluster

.PHONY: bpf-check
bpf-check: packages $(PROGRAMS) ## check that the BPF programs fit the stack that 6.1 gives them
	$(pytest) tests/bpf/test_stack_bytes.py

.PHONY: hardening-check
hardening-check: packages $(PROGRAMS) ## check how the programs were compiled and linked
	$(pytest) tests/hardening

.PHONY: install-check
install-check: all $(MAN_PAGES) $(COMPLETION) ## check what `make install` copies, man pages and units, and that there is one version
	$(pytest) tests/install

.PHONY: bench-check
bench-check: packages ## check how the benchmarks judge stacks
	$(pytest) tests/bench

.PHONY: layers
layers: packages ## check which folder includes which (tests/layers/rooms.txt), and for cycles of modules
	python3 tests/layers/check_layers.py --readmes
	$(pytest) tests/layers

# Unit tests, the page's and those of the wall clock wait half of their time: beside them, and beside the next stage, runs what only computes.
# The page's tests do not run beside wall-quick: its agents were late with Chromium there, and it took twice as long.
UNIT_STAGES := unit+layers+format-check+docs-check+bpf-check+deploy-check+hardening-check+install-check+bench-check+fuzz-quick
.PHONY: test
test: packages $(PROGRAMS) ## everything that CI runs: includes, layout, unit, end-to-end and browser tests, fuzzers for a second each
	tests/run-stages $(MAKE) $(UNIT_STAGES) \
		browser \
		e2e \
		truth-quick \
		wall-quick+differential-quick

CLICKHOUSE_TESTS := $(call unit_programs,clickhouse_store clickhouse_commit)

.PHONY: clickhouse
clickhouse: packages packages-clickhouse $(CLICKHOUSE_TESTS) ## the store on ClickHouse against a real server: conformance, kill -9
	CLICKHOUSE=1 tests/run-unit --make $(repeat) $(CLICKHOUSE_TESTS)
	$(pytest) tests/clickhouse

.PHONY: truth truth-quick
truth: packages packages-truth $(PROGRAMS) workloads ## stacks against programs that know theirs: all compilers and interpreters
	python3 -m pytest -q -s --whole $(if $(TEST),"$$TEST",tests/truth)
	$(if $(TEST),,python3 -m pytest -q tests/e2e/test_jit.py)
truth-quick: packages $(PROGRAMS)
	$(pytest) --again --workers $(TEST_WORKERS) tests/truth

.PHONY: wall wall-quick
wall: packages $(PROGRAMS) ## off-CPU time against programs that measure their own, and of all threads of the machine
	python3 -m pytest -q -s --whole tests/wall
# What holds on a machine that others use, too; how long waits were is for `make wall`.
wall-quick: packages $(PROGRAMS)
	$(pytest) --again -m "not exact" tests/wall

.PHONY: differential differential-quick
differential: packages $(BUILD)/tests/differential/print_table ## unwind tables of all of this machine's files against readelf's reading
	python3 tests/differential/compare.py $(BUILD)/tests/differential/print_table
differential-quick: packages $(BUILD)/tests/differential/print_table $(BUILD)/tests/differential/step_stack
	DIFFERENTIAL=$(abspath $(BUILD))/tests/differential \
		$(pytest) --workers $(TEST_WORKERS) tests/differential
$(BUILD)/tests/differential/%: $(BUILD)/obj/tests/differential/%.o $(AGENT_A) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(AGENT_LIBS) -o $@

.PHONY: test-kernels
test-kernels: packages-kernels $(PROGRAMS) $(UNIT_TESTS) ## load and check stacks on Debian's 6.1 and 6.12, emulated
	python3 -m pytest -q -s tests/bpf

.PHONY: load-kernels
load-kernels: packages-kernels $(BUILD)/tests/agent/bpf/test_loader ## only load and run the BPF programs there: a minute
	python3 -m pytest -q -s tests/bpf/test_kernels.py -k test_programs_load

# Debian's non-free package, unpacked below build/: its functions can be called without a device.
.PHONY: test-libcuda
test-libcuda: packages $(call unit_programs,probe_site gpu_probes) ## sites and probes in the real driver library
	rm -rf $(BUILD)/libcuda
	tests/gpu/fetch-libcuda $(abspath $(BUILD))/libcuda
	for test in $(call unit_programs,probe_site gpu_probes); do \
		CAIRN_LIBCUDA=$$(find $(abspath $(BUILD))/libcuda/root -name 'libcuda.so.*.*' -type f) \
			$$test || exit 1; \
	done

# Unit tests that need nothing of the kernel: an emulated program has this machine's.
AARCH64_TESTS := $(patsubst $(BUILD)/%,build/aarch64/%,$(call unit_programs,unwind unwind_search stack_hash unwind_arm64 self_unwind \
	unwind_table_build cfi cloned_threads unwind_synthesis unwind_rules cfi_program arm64_analysis elf build_id symbol_table))
.PHONY: test-aarch64
test-aarch64: packages packages-kernels ## cross-compile; unwinder's unit tests under qemu, stacks on Debian's arm64 kernels, emulated
	$(MAKE) ARCH=aarch64 BUILD=build/aarch64 build/aarch64/cairn build/aarch64/tests/agent/bpf/test_loader $(AARCH64_TESTS)
	tests/aarch64/run $(CURDIR)/build/sysroot/aarch64 $(AARCH64_TESTS)
	BUILD=build/aarch64 python3 -m pytest -q -s tests/aarch64

.PHONY: sanitize
sanitize: packages ## unit and end-to-end tests under ASan and UBSan
	$(MAKE) SANITIZE=1 BUILD=$(BUILD)/sanitize unit
	$(MAKE) SANITIZE=1 BUILD=$(BUILD)/sanitize e2e

.PHONY: sanitize-threads
sanitize-threads: packages ## unit tests under ThreadSanitizer; TEST=collector/store: only these
	TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.suppressions \
		$(MAKE) SANITIZE=thread BUILD=$(BUILD)/tsan $(if $(TEST),TEST=$(TEST)) unit

# ---- workloads with known shares, benchmarks, fuzzers -----------------------------------------

WORKLOADS := $(patsubst tests/workloads/%.c,$(BUILD)/workloads/%,$(wildcard tests/workloads/*.c)) \
	     $(patsubst tests/workloads/%.cpp,$(BUILD)/workloads/%,$(wildcard tests/workloads/*.cpp))

.PHONY: workloads
workloads: packages $(WORKLOADS)
$(BUILD)/workloads/%: tests/workloads/%.c
	mkdir -p $(@D)
	$(call say,CC,$<)
	$(CC) -std=gnu11 -O1 -g -I. -D_GNU_SOURCE -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wall -Wextra -pthread $< -o $@
$(BUILD)/workloads/%: tests/workloads/%.cpp
	mkdir -p $(@D)
	$(call say,CXX,$<)
	g++ -std=c++17 -O1 -g -I. -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wall -Wextra -pthread $< -o $@

# It is no Debian package. Without it, as without a network, it is left out.
PY_SPY := $(BUILD)/bench/venv/bin/py-spy
$(PY_SPY): | packages-bench
	mkdir -p $(BUILD)/bench
	python3 -m venv $(BUILD)/bench/venv && $(BUILD)/bench/venv/bin/pip install --quiet py-spy || \
		echo "py-spy cannot be had from PyPI: it will be left out" >&2

.PHONY: bench
bench: packages $(PROGRAMS) $(addprefix $(BUILD)/bench/,bench_store bench_queries bench_unwind_table bench_bpf_stats bench_page_faults bench_gpu_probes bench_switch_cost replay_agents deep_calls random_calls switches) $(BUILD)/tests/gpu/libcuda.so.1 $(BUILD)/tests/gpu/step_client packages-bench $(PY_SPY) ## what it costs, beside other profilers; writes bench/RESULTS.md (BENCH='name…' RECORD=1, ROUNDS=n, PEER='start command' PEER_STACKS=file)
	BUILD=$(BUILD) PATH="$$PATH:$(abspath $(dir $(PY_SPY)))" bench/run $(if $(RECORD),--record) $(BENCH)

# Workloads: no frame pointers.
$(BUILD)/bench/deep_calls $(BUILD)/bench/switches: $(BUILD)/bench/%: bench/%.c
	mkdir -p $(@D)
	$(call say,CC,$<)
	$(CC) -std=gnu11 -O2 -fomit-frame-pointer -Wall -Wextra -pthread $< -o $@

COLD_CALLS := 3000
$(BUILD)/bench/cold_calls.c: bench/generate_calls
	mkdir -p $(@D)
	$< $(COLD_CALLS) > $@
$(BUILD)/bench/random_calls: bench/random_calls.c $(BUILD)/bench/cold_calls.c bench/random_calls.h
	$(call say,CC,$<)
	$(CC) -std=gnu11 -I. -O1 -fomit-frame-pointer -Wall -Wextra -pthread $(filter %.c,$^) -o $@

$(addprefix $(BUILD)/bench/,bench_unwind_table bench_bpf_stats bench_page_faults bench_gpu_probes bench_switch_cost): $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(AGENT_A) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(AGENT_LIBS) -o $@
$(BUILD)/bench/replay_agents: $(BUILD)/obj/bench/replay_agents.o $(AGENT_A) $(PROTO_A) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(AGENT_LIBS) $(PROTO_LIBS) -o $@
$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(COLLECTOR_A) $(PROTO_A) $(BASE_A)
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CC) $(LDFLAGS) $^ $(COLLECTOR_LIBS) -o $@

FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 10
# What they need of our folders: the rest, with the programs for the kernel, is not built for them.
fuzzed = $(shell tests/fuzz/list-modules --folders '$(1)' $(2:$(BUILD)/%=tests/%.c))
FUZZED_A := $(BUILD)/lib/fuzzed.a
# The command line's and the collector's modules have some names in common.
CLI_FUZZERS := $(filter $(BUILD)/fuzz/fuzz_cli_%,$(FUZZERS))
FUZZED_CLI_A := $(BUILD)/lib/fuzzed_cli.a

.PHONY: fuzz fuzz-quick
fuzz: packages packages-fuzz ## fuzz the parsers, FUZZ_SECONDS (10) each; TEST=fuzz_elf, with INPUT=file: only that
	$(MAKE) BUILD=$(BUILD)/fuzz-build fuzzers
	tests/fuzz/make-seeds $(BUILD)/fuzz-build/seeds
	tests/run-fuzz --make $(repeat) --workers $(TEST_WORKERS) --seconds $(FUZZ_SECONDS) $(INPUT:%=--input %) --crashes $(BUILD)/fuzz-build/crashes \
		--corpus $(BUILD)/fuzz-build/corpus --seeds $(BUILD)/fuzz-build/seeds \
		$(if $(TEST),$(BUILD)/fuzz-build/fuzz/$(TEST),$(FUZZERS:$(BUILD)/%=$(BUILD)/fuzz-build/%))
fuzz-quick:
	$(MAKE) FUZZ_SECONDS=1 fuzz

.PHONY: fuzzers
fuzzers: $(FUZZERS)
$(FUZZERS:$(BUILD)/%=$(BUILD)/obj/tests/%.o): | $(PROTO_GEN)
# Also with a CC of the command line: the fuzzers are clang's.
$(FUZZERS): override CC := $(CLANG) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
$(FUZZERS): CFLAGS := $(filter-out -O2 -g $(HARDENING),$(CFLAGS)) -O1 -gline-tables-only
.SECONDEXPANSION: # only who builds fuzzers lists what they need
$(FUZZED_A): $$(call objects,$$(call fuzzed,agent collector proto base,$(filter-out $(CLI_FUZZERS),$(FUZZERS))))
$(FUZZED_CLI_A): $$(call objects,$$(call fuzzed,agent cli proto base,$(CLI_FUZZERS)))
$(FUZZED_A) $(FUZZED_CLI_A): $(patsubst $(BUILD)/gen/%.c,$(BUILD)/obj/gen/%.o,$(PROTO_GEN))
$(filter-out $(CLI_FUZZERS),$(FUZZERS)): $(FUZZED_A)
$(CLI_FUZZERS): $(FUZZED_CLI_A)
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o
	mkdir -p $(@D)
	$(call say,LD,$@)
	$(CLANG) -fsanitize=fuzzer,address,undefined -pthread $(filter %.o,$^) $(filter %.a,$^) -lprotobuf-c -lnghttp2 -lmicrohttpd -lzstd $(AGENT_LIBS) -o $@

# ---- running --------------------------------------------------------------------------------

.PHONY: run
run: packages $(PROGRAMS) ## profile this machine: collector, agent and the page; Ctrl-C ends it; STORE=clickhouse: profiles in Debian's ClickHouse
	exec deploy/run

.PHONY: demo
demo: packages $(PROGRAMS) ## the same with a small inference service under load, for 10 minutes
	exec deploy/demo/run

.PHONY: install
install: all $(MAN_PAGES) $(COMPLETION) $(UNITS) ## copy programs, man pages, units and settings below DESTDIR and PREFIX
	echo "$$FILES" | while read -r mode file place; do install -D -m $$mode $$file "$(DESTDIR)$$place" || exit 1; done
	for name in $(SETTINGS); do \
		test -e "$(DESTDIR)$(SYSCONFDIR)/cairn/$$name" || \
			install -D -m 0644 deploy/settings/$$name "$(DESTDIR)$(SYSCONFDIR)/cairn/$$name" || exit 1; done

.PHONY: uninstall
uninstall: ## remove what `make install` with the same DESTDIR and PREFIX has copied; changed settings and data stay
	echo "$$FILES" | while read -r mode file place; do rm -f "$(DESTDIR)$$place"; done
	for name in $(SETTINGS); do \
		! cmp -s deploy/settings/$$name "$(DESTDIR)$(SYSCONFDIR)/cairn/$$name" || rm "$(DESTDIR)$(SYSCONFDIR)/cairn/$$name"; done
	! test -d "$(DESTDIR)$(SYSCONFDIR)/cairn" || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$(SYSCONFDIR)/cairn"

# ---- releasing ------------------------------------------------------------------------------

# Of a clean build of its own, as of the version's day.
RELEASE_BUILD := $(BUILD)/release
DIST := $(BUILD)/dist
RELEASE_DAY = $(shell sed -n 's/^\#\# .* (\(.*\))$$/\1/p' CHANGELOG.md | head -n 1)
release = RELEASE=1 SOURCE_DATE_EPOCH=$(shell date --utc --date $(RELEASE_DAY) +%s) \
	  $(if $(CROSS),ARCH=$(ARCH) DEB_HOST_ARCH=$(DEBIAN_ARCH) SYSROOT=$(SYSROOT) CAIRN_MAKE=ARCH=$(ARCH))

.PHONY: release-build
release-build: packages packages-dist
	$(MAKE) BUILD=$(RELEASE_BUILD) RELEASE=1 all

.PHONY: debs
debs: release-build ## build Debian packages into build/dist
	$(call say,DEB,$(DIST))
	rm -f $(DIST)/*.deb
	$(release) deploy/release/build-debs $(RELEASE_BUILD) $(DIST)

.PHONY: tarball
tarball: release-build ## build a tarball for any distribution into build/dist
	$(call say,TAR,$(DIST))
	$(release) deploy/release/build-tarball $(RELEASE_BUILD) $(DIST)

.PHONY: images
images: debs ## build OCI images of agent and collector into build/dist; BASE=image to build on, BASE=make-base: by mmdebstrap
	$(call say,OCI,$(DIST))
	$(release) BASE=$(BASE) deploy/release/build-images $(DIST) $(DIST)

.PHONY: dist
dist: debs tarball images ## build all that a version is published as into build/dist: docs/install.md says what is for whom
	$(release) deploy/release/finish $(DIST)

.PHONY: dist-check
dist-check: packages packages-dist ## install, run and remove what build/dist has, in roots of Debian 11, 12 and 13
	python3 -m pytest -q -s tests/release

.PHONY: format
format: packages ## lay out the C code as .clang-format says
	clang-format -i $(FORMATTED)

.PHONY: format-check
format-check: packages
	printf '%s\n' $(FORMATTED) | xargs -n 64 -P $(shell nproc) clang-format --dry-run --Werror
FORMATTED = $(shell git ls-files '*.c' '*.cc' '*.h')

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/bpf -name '*.d' 2>/dev/null)
