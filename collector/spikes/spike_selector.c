// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_selector.h"

void spike_selector_init(struct spike_selector *narrowed, const struct selector *selector,
			 bool tenant_only)
{
	narrowed->selector = *selector;
	narrowed->selector.matchers = narrowed->matchers;
	narrowed->selector.count = 0;
	for (uint32_t i = 0; i < selector->count; i++) {
		if (!tenant_only || selector->matchers[i].is_tenant)
			narrowed->matchers[narrowed->selector.count++] = selector->matchers[i];
	}
}

void spike_selector_add(struct spike_selector *narrowed, const char *name, const char *value)
{
	narrowed->matchers[narrowed->selector.count++] = (struct matcher){
		.name = (char *)name,
		.op = MATCH_EQUAL,
		.value = (char *)value,
	};
}
