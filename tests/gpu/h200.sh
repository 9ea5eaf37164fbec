#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The check list for a machine with a real NVIDIA GPU (an H200 where there is one). Prints Markdown; on such
# a machine:
#
#   make all cupti build/bench/bench_gpu_probes && sudo PYTHON=python3 tests/gpu/h200.sh > docs/gpu-verified.md
#
# PYTHON is an interpreter with PyTorch, BUILD the folder with the programs, SECONDS_EACH how long each workload
# runs (40), ONLY the numbers of items to do ("1 8 10"). With --dry nothing runs: it prints each command, and names what
# is missing here. An item that fails prints why, and the others go on.
set -u
cd "$(dirname "$0")/../.." || exit 1

BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
SECONDS_EACH=${SECONDS_EACH:-40} # a verdict is surer from 30 s on
ONLY=${ONLY:-1 2 3 4 5 6 7 8 9 10 11 12}
HTTP=127.0.0.1:17470
GRPC=127.0.0.1:17471
WORKLOADS=tests/gpu/h200_workloads.py
HELPER=$PWD/$BUILD/libcairn_cupti.so
DRY=
[ "${1:-}" = --dry ] && DRY=1

work=$(mktemp -d)
started=()
end() {
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
	rm -rf "$work"
}
trap end EXIT

# ---- output ----------------------------------------------------------------------

item() { printf '\n## %s. %s\n\n' "$1" "$2"; }
wanted() { case " $ONLY " in *" $1 "*) return 0 ;; esac; return 1; }

# Run a command and print it with its output. A failure does not end the script.
show() {
	printf '    $ %s\n' "$*"
	[ -n "$DRY" ] && return 0
	"$@" 2>&1 | sed 's/^/    /'
	[ "${PIPESTATUS[0]}" = 0 ] || printf '\n**This failed.**\n'
}

need() {
	for file; do
		[ -e "$file" ] || command -v "$file" >/dev/null || { printf '**Missing: %s**\n' "$file"; return 1; }
	done
}

# Where the loader finds the driver.
driver() { ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }' | grep . || echo libcuda.so.1; }

# ---- a collector, an agent, workloads -----------------------------------------------------------

start_collector() {
	"$BUILD/cairn-collector" --data "$work/data" --http "$HTTP" --grpc "$GRPC" >"$work/collector.log" 2>&1 &
	started+=($!)
	sleep 2
}
start_agent() {
	"$BUILD/cairn-agent" --collector "$GRPC" >"$work/agent.log" 2>&1 &
	agent=$!
	started+=("$agent")
	sleep 5
}
stop_agent() { kill "$agent" 2>/dev/null; wait "$agent" 2>/dev/null; }

# workload NAME [SERVICE]: its own counts are in $counted.
workload() {
	printf '    $ OTEL_SERVICE_NAME=%s %s %s %s %s\n' "${2:-$1}" "$PYTHON" "$WORKLOADS" "$1" "$SECONDS_EACH"
	[ -n "$DRY" ] && { counted='{}'; return 0; }
	counted=$(OTEL_SERVICE_NAME="${2:-$1}" "$PYTHON" "$WORKLOADS" "$1" "$SECONDS_EACH" 2>"$work/$1.err" | tail -1)
	printf '    %s\n' "${counted:-$(tail -1 "$work/$1.err")}"
	sleep 8 # the agent's next batch
}
query() { show "$BUILD/cairn" query "$1" --type "$2" --from now-1h --collector-http "http://$HTTP"; }
diagnose() { show "$BUILD/cairn" diagnose "$1" --from "now-${SECONDS_EACH}s" --collector-http "http://$HTTP"; }
# The largest stacks, whole.
stacks() {
	[ -n "$DRY" ] || rm -f "$work/stacks.collapsed" # where nothing matches, query leaves it as it was
	show "$BUILD/cairn" query "$1" --type "$2" --from now-1h --collector-http "http://$HTTP" -o "$work/stacks.collapsed"
	[ -n "$DRY" ] || awk '{ print $NF, $0 }' "$work/stacks.collapsed" | sort -rn | head -5 | cut -d ' ' -f 2- | sed 's/^/    /'
}

# ---- the items ----------------------------------------------------------------------------------

item_1() {
	need nvidia-smi readelf || [ -n "$DRY" ] || return
	show nvidia-smi --query-gpu=name,driver_version,uuid,pcie.link.gen.max,pcie.link.width.max --format=csv
	show python3 tests/gpu/driver_shape.py "$(driver)"
	show sh -c "python3 tests/gpu/driver_shape.py '$(driver)' --bytes |
		grep -E '  (cuLaunchKernel|cuGraphLaunch|cuMemcpy.*|cuStreamSynchronize|cuMemAlloc.*|cuMemFree.*)(_v2|_ptsz|_ptds)*$'"
}
# The sum of a type's values over a service; launches are weighted by the probe duty cycle.
total() {
	curl -sf "http://$HTTP/api/v1/series?query=$1&type=$2&from=now-1h&step=60s" |
		python3 -c 'import json, sys; print(sum(series["total"] for series in json.load(sys.stdin)["series"]))'
}
# compare SERVICE TYPE KEY: cairn's count beside the workload's ($counted).
compare() {
	printf '    %s of %s, by cairn: ' "$2" "$1"
	[ -n "$DRY" ] && { printf '(dry)\n'; return; }
	seen=$(total "$1" "$2")
	python3 -c 'import json, sys
seen, counted = float(sys.argv[1] or 0), json.loads(sys.argv[2] or "{}").get(sys.argv[3], 0)
print(f"{seen:.0f}, by itself: {counted}" + (f", ratio {seen / counted:.3f}" if counted else ""))' "$seen" "$counted" "$3"
}
LAUNCHES=gpu_launch:launches:count:launch:count
item_2() {
	show python3 tests/gpu/driver_shape.py "$(driver)" --addresses
	printf '\nLaunches by torch.profiler'\''s count and by cairn'\''s: by PyTorch, cuBLAS, Triton, a static runtime; and NCCL.\n\n'
	workload profiled
	stacks profiled gpu-launch
	compare profiled "$LAUNCHES" launches
	for name in cublas triton_kernels; do
		workload "$name"
		compare "$name" "$LAUNCHES" launches
	done
	workload nccl_one
	compare nccl_one nccl:calls:count:call:count nccl_calls
	query nccl_one nccl-enqueue
	need nvcc || [ -n "$DRY" ] || return
	show nvcc -cudart static -o "$work/h200_static" tests/gpu/h200_static.cu
	printf '    $ OTEL_SERVICE_NAME=static h200_static %s\n' "$SECONDS_EACH"
	if [ -z "$DRY" ]; then
		counted=$(OTEL_SERVICE_NAME=static "$work/h200_static" "$SECONDS_EACH" | tail -1)
		sleep 8
	fi
	compare static "$LAUNCHES" launches
}
item_3() {
	printf 'Which part of the launches has a name, with the agent there first (early) and later (late):\n\n'
	workload gemm names-early
	query names-early gpu-launch
	[ -n "$DRY" ] || stop_agent
	printf '    $ OTEL_SERVICE_NAME=names-late %s %s tiny_kernels & sleep 20; cairn-agent\n' "$PYTHON" "$WORKLOADS"
	if [ -z "$DRY" ]; then
		OTEL_SERVICE_NAME=names-late "$PYTHON" "$WORKLOADS" tiny_kernels $((SECONDS_EACH + 20)) >/dev/null 2>&1 &
		sleep 20
		start_agent
		sleep "$SECONDS_EACH"
	fi
	query names-late gpu-launch
}
item_4() {
	printf 'Replays as the workload counted them, and graph launches and the stacks that captured them:\n\n'
	workload graphs
	stacks graphs gpu-graph
	stacks graphs gpu-graph-kernels
	compare graphs gpu_graph:launches:count:launch:count replays
	compare graphs "$NODES" nodes_at_least
	printf '\nChildren, clones and updates:\n\n'
	workload child_graphs
	stacks child_graphs gpu-graph-kernels
	compare child_graphs gpu_graph:launches:count:launch:count replays
	compare child_graphs "$NODES" nodes
}
NODES=gpu_graph:kernels:count:launch:count
item_5() {
	printf 'Waits: how many stacks reach the thread'\''s first function, in the loop and at the calls:\n\n'
	workload gemm waits
	query waits gpu-spin
	query waits gpu-wait
}
item_6() {
	printf 'Cost of probes here, and what attaching takes, in the real library; its calls return an error without a context:\n\n'
	if need "$BUILD/bench/bench_gpu_probes" || [ -n "$DRY" ]; then
		show "$BUILD/bench/bench_gpu_probes" "$(driver)"
	fi
	printf '\nThroughput with and without the agent:\n\n'
	for name in tiny_kernels graphs stream_memory; do
		[ -n "$DRY" ] || stop_agent
		printf '\nWithout:\n\n'
		workload "$name" "$name-without"
		[ -n "$DRY" ] || start_agent
		printf '\nWith:\n\n'
		workload "$name" "$name-with"
	done
	show curl -sf "http://$HTTP/api/v1/series?query=%7B%7D&type=cairn:overhead:nanoseconds:wall:nanoseconds&from=now-10m&group_by=program"
}
item_7() {
	printf 'GPU idle time (a lower bound) beside the truth: the workload has its GPU work between events.\n\n'
	workload idle_truth
	compare_idle
	query idle_truth gpu-idle
	diagnose idle_truth
	need "$HELPER" || [ -n "$DRY" ] || return
	printf '\nThe same by CUPTI: GPU kernels ran for this share of the time, so idle time is at most the rest.\n\n'
	if [ -z "$DRY" ]; then
		OTEL_SERVICE_NAME=idle-cupti CUDA_INJECTION64_PATH=$HELPER "$PYTHON" "$WORKLOADS" idle_truth "$SECONDS_EACH" >"$work/helped" 2>&1 &
		helped=$!
		sleep 15
	fi
	for ms in 1000 2000 2000; do
		show "$BUILD/cairn" gpu-kernels "${helped:-PID}" --session "$ms"
	done
	[ -n "$DRY" ] || { wait "$helped"; counted=$(tail -1 "$work/helped"); sleep 8; }
	compare_idle idle-cupti
}
# GPU idle time by cairn, as a share of the workload's time; never more than the truth.
compare_idle() {
	[ -n "$DRY" ] && { printf '    idle by cairn: (dry)\n'; return; }
	python3 -c 'import json, sys
counted, seconds = json.loads(sys.argv[2] or "{}"), float(sys.argv[3])
share, most = float(sys.argv[1] or 0) / 1e9 / seconds, counted.get("idle_share_at_most", 0)
print(f"    idle by cairn: at least {share:.4f}; in truth: {most}" + ("" if share <= most else "\n\n**The bound does not hold.**"))' \
		"$(total "${1:-idle_truth}" gpu_idle:time:nanoseconds:wall:nanoseconds)" "$counted" "$SECONDS_EACH"
}
item_8() {
	printf 'GPU telemetry and verdict for known workloads:\n'
	while IFS="$(printf '\t')" read -r name verdict; do
		[ -n "$verdict" ] || continue
		printf '\n### %s (expected: %s)\n\n' "$name" "$verdict"
		workload "$name"
		diagnose "$name"
	done < <("$PYTHON" "$WORKLOADS" --list)
}
item_9() {
	for name in copies_pageable copies_pinned item_each_step; do
		workload "$name" "copy-$name"
		stacks "copy-$name" gpu-copy
		stacks "copy-$name" gpu-wait
	done
}
item_10() {
	need "$HELPER" || [ -n "$DRY" ] || return
	printf 'CUPTI sessions: time to begin and end, and overhead.\n\n'
	for name in tiny_kernels graphs profiled; do
		printf '\n%s:\n\n    $ CUDA_INJECTION64_PATH=%s %s %s %s %s &\n' "$name" "$HELPER" "$PYTHON" "$WORKLOADS" \
			"$name" "$SECONDS_EACH"
		if [ -z "$DRY" ]; then
			CUDA_INJECTION64_PATH=$HELPER "$PYTHON" "$WORKLOADS" "$name" "$SECONDS_EACH" >"$work/helped" 2>&1 &
			helped=$!
			sleep 15
		fi
		for ms in 200 1000 1000; do
			show "$BUILD/cairn" gpu-kernels "${helped:-PID}" --session "$ms" --one-in 8
			show nvidia-smi --query-compute-apps=pid,used_memory --format=csv
		done
		[ -n "$DRY" ] || { wait "$helped"; sed 's/^/    /' "$work/helped"; }
	done
	printf '\nMemory over 10 million records: 1000 sessions of tiny_kernels, its memory before and after.\n\n'
	printf '    (by hand: for i in {1..1000}; do cairn gpu-kernels PID --session 2000 --one-in 64; done)\n'
}
item_11() {
	printf 'The driver'\''s own threads must not be in off-CPU time:\n\n'
	workload graphs helpers
	stacks helpers off-cpu
}
item_12() {
	show uname -r
	show "$BUILD/cairn" record -d 2 -o "$work/record.pb.gz"
	[ -n "$DRY" ] || show tail -5 "$work/agent.log"
}

# ---- run ----------------------------------------------------------------------------------

printf '# What was verified on a real GPU\n\nPrinted by tests/gpu/h200.sh on %s' "$(date -u +%F)"
[ -n "$DRY" ] && printf ' (dry: nothing ran)'
printf '.\n'
need "$BUILD/cairn" "$BUILD/cairn-agent" "$BUILD/cairn-collector" nvidia-smi readelf curl
"$PYTHON" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
	printf '**No PyTorch with a GPU in %s.**\n' "$PYTHON"
if [ -z "$DRY" ]; then
	nvidia-smi >/dev/null 2>&1 || { printf 'No GPU here: nothing was verified.\n'; exit 1; }
	start_collector
	start_agent
fi

titles=("The driver's file" "cuGetProcAddress and counts" "GPU kernel names" "CUDA graphs" "Stacks of waits"
	"What probes cost" "GPU idle time" "GPU telemetry and verdicts" "Copies and implicit synchronization" "CUPTI sessions"
	"The driver's own threads" "Whether BPF programs are allowed")
for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
	wanted "$number" || continue
	item "$number" "${titles[number - 1]}"
	"item_$number"
done
