// SPDX-License-Identifier: Apache-2.0
// Lanes of GPUs, by the parts of their types that say what they are: the two that follow say how it is
// measured. All lanes that only threads with a GPU have begin with GPU_LANES_OF_USERS; what GPUs do by
// themselves is "gpu:".
#pragma once

#define GPU_LANES_OF_USERS "gpu_"

#define GPU_LANE_WAIT        "gpu_wait:wait:nanoseconds:"
#define GPU_LANE_LAUNCHES    "gpu_launch:launches:count:"
#define GPU_LANE_COPY_BYTES  "gpu_copy:bytes:bytes:"
#define GPU_LANE_COPIES      "gpu_copy:copies:count:"
#define GPU_LANE_ALLOC       "gpu_memory:alloc:bytes:"
#define GPU_LANE_ALLOCATIONS "gpu_memory:allocations:count:"
#define GPU_LANE_INUSE       "gpu_memory:inuse:bytes:"
#define GPU_LANE_IDLE        "gpu_idle:time:nanoseconds:"
#define GPU_LANE_IDLE_STACKS "gpu_idle:idle:nanoseconds:"
#define GPU_LANE_LAG         "nccl:lag:nanoseconds:"
#define GPU_LANE_WAKERS      "off_wake:blocked:nanoseconds:"
