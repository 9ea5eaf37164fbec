// SPDX-License-Identifier: Apache-2.0
// Values of labels that cairn sets itself, other than wait classes, thread states and knobs.
#pragma once

#include <stdint.h>

#define DIRECTION_HOST_TO_DEVICE   "host_to_device"
#define DIRECTION_DEVICE_TO_HOST   "device_to_host"
#define DIRECTION_DEVICE_TO_DEVICE "device_to_device"
#define DIRECTION_SET              "set"

#define MEMORY_PINNED   "pinned"
#define MEMORY_PAGEABLE "pageable"

#define REASON_POWER_CAP        "power_cap"
#define REASON_HARDWARE         "hardware"
#define REASON_THERMAL          "thermal"
#define REASON_HARDWARE_THERMAL "hardware_thermal"
#define REASON_POWER_BRAKE      "power_brake"

#define PROGRAM_AGENT               "agent"
#define PROGRAM_AGENT_UNWIND_TABLES "agent_unwind_tables"
#define PROGRAM_AGENT_SENDER        "agent_sender"
#define PROGRAM_AGENT_GRPC          "agent_grpc"
#define PROGRAM_AGENT_OTHER         "agent_other"
#define PROGRAM_GPU_PROBES          "gpu_probes"

#define VALUE_OTHER   "other"   // of thread: past the quota of a process
#define VALUE_UNKNOWN "unknown" // of direction, memory, grid, communicator, rank, ranks

struct label_value_spec {
	const char *label;
	const char *value;
	const char *title;
	const char *meaning; // NULL: the title says it
};

/** All of them. */
const struct label_value_spec *label_value_specs(uint32_t *ret_count);
