// SPDX-License-Identifier: Apache-2.0
// Metrics in Prometheus's text format, version 0.0.4: what the agent and the collector answer to /metrics.
#pragma once

#include "base/buffer.h"

/** Begin the metric @name, in cairn's units and of Prometheus's @type. Its samples with labels follow. */
void metric_text_begin(struct buffer *buffer, const char *name, const char *type,
		       const char *sentence);
/** A metric of one sample without labels. */
void metric_text_add(struct buffer *buffer, const char *name, const char *type,
		     const char *sentence, double value);
/** This process's memory and CPU time, under the names that all exporters give them. */
void metric_text_add_process(struct buffer *buffer);
