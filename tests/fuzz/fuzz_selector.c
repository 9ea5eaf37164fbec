// SPDX-License-Identifier: Apache-2.0
// Any text as a selector: it is refused with a word, or it matches labels within its limits.

#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"
#include "collector/store/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct labels labels = { 0 };
	struct selector selector;
	struct error err = { 0 };
	const char *tenant = size % 2 ? "shop" : SELECTOR_ALL_TENANTS;
	char *text = strndup((const char *)bytes, size);

	check(text && !labels_set(&labels, LABEL_SERVICE, "aaaaaaaaaaaaaaaa"));
	int rc = selector_parse(text, tenant, &selector, &err);
	if (rc) {
		check(err.text[0]);
	} else {
		check(selector.count <= SELECTOR_MATCHERS_MAX + (tenant != NULL));
		// The series is of no tenant.
		check(!selector_matches(&selector, &labels) || !tenant);
		selector_check_cost(&selector, &err);
		selector_deinit(&selector);
	}
	labels_deinit(&labels);
	free(text);
	return 0;
}
