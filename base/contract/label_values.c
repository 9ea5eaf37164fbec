// SPDX-License-Identifier: Apache-2.0
#include "base/contract/label_values.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"

static const struct label_value_spec values[] = {
	{ LABEL_DIRECTION, DIRECTION_HOST_TO_DEVICE, "host to GPU", NULL },
	{ LABEL_DIRECTION, DIRECTION_DEVICE_TO_HOST, "GPU to host", NULL },
	{ LABEL_DIRECTION, DIRECTION_DEVICE_TO_DEVICE, "GPU to GPU", NULL },
	{ LABEL_DIRECTION, DIRECTION_SET, "memset", "set to a value, not copied" },
	{ LABEL_MEMORY, MEMORY_PINNED, "pinned", "page-locked host memory" },
	{ LABEL_MEMORY, MEMORY_PAGEABLE, "pageable", "the driver copies it once more" },
	{ LABEL_REASON, REASON_POWER_CAP, "power cap", "the software power limit" },
	{ LABEL_REASON, REASON_HARDWARE, "hardware slowdown", NULL },
	{ LABEL_REASON, REASON_THERMAL, "thermal", "software thermal slowdown" },
	{ LABEL_REASON, REASON_HARDWARE_THERMAL, "thermal (hardware)",
	  "hardware thermal slowdown" },
	{ LABEL_REASON, REASON_POWER_BRAKE, "power brake",
	  "the power supply's external brake signal" },
	{ LABEL_PROGRAM, PROGRAM_AGENT, "agent",
	  "the agent's main loop: reads and symbolizes samples" },
	{ LABEL_PROGRAM, PROGRAM_AGENT_UNWIND_TABLES, "agent: unwind tables",
	  "builds unwind tables" },
	{ LABEL_PROGRAM, PROGRAM_AGENT_SENDER, "agent: sender", "encodes and sends profiles" },
	{ LABEL_PROGRAM, PROGRAM_AGENT_GRPC, "agent: gRPC", "gRPC's own threads" },
	{ LABEL_PROGRAM, PROGRAM_AGENT_OTHER, "agent: other", "the agent's other threads" },
	{ LABEL_PROGRAM, PROGRAM_GPU_PROBES, "GPU probes",
	  "time that probed processes spend in probes of the GPU driver" },
};

const struct label_value_spec *label_value_specs(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(values);
	return values;
}
