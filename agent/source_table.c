// SPDX-License-Identifier: Apache-2.0
#include "agent/source_table.h"

#include <stddef.h>

#include "agent/gpu/gpu_source.h"
#include "agent/gpu/gpu_usage.h"
#include "agent/overhead/budget_source.h"
#include "agent/sources/page_faults.h"
#include "agent/sources/stackless_series.h"
#include "agent/sources/switches.h"
#include "agent/sources/wakers.h"

const struct source *const source_table[] = {
	&switches_source,
	&wakers_source, // after the switches that it needs
	&gpu_usage_source,
	&gpu_calls_source,
	&page_faults_source,
	&stackless_series_source,
	&budget_source, // the last one: it asks which of the others run
	NULL,
};
