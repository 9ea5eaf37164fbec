// SPDX-License-Identifier: Apache-2.0
#include "base/metric_text.h"

#include "base/clock.h"
#include "base/memory_limit.h"

void metric_text_begin(struct buffer *buffer, const char *name, const char *type,
		       const char *sentence)
{
	buffer_printf(buffer, "# HELP %s %s\n# TYPE %s %s\n", name, sentence, name, type);
}

void metric_text_add(struct buffer *buffer, const char *name, const char *type,
		     const char *sentence, double value)
{
	metric_text_begin(buffer, name, type, sentence);
	buffer_printf(buffer, "%s %.15g\n", name, value);
}

void metric_text_add_process(struct buffer *buffer)
{
	metric_text_add(buffer, "process_resident_memory_bytes", "gauge",
			"Resident memory of this process.", (double)memory_resident());
	metric_text_add(buffer, "process_cpu_seconds_total", "counter",
			"CPU time of this process; that of BPF programs is not in it.",
			(double)clock_process_cpu_ns() / NS_PER_SECOND);
}
