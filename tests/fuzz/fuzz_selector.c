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
	char *text = strndup((const char *)bytes, size);

	check(text && !labels_set(&labels, LABEL_SERVICE, "aaaaaaaaaaaaaaaa"));
	int rc = selector_parse(text, &selector, &err);
	if (rc) {
		check(err.text[0]);
	} else {
		check(selector.count <= SELECTOR_MATCHERS_MAX);
		selector_matches(&selector, &labels);
		selector_check_cost(&selector, &err);
		selector_deinit(&selector);
	}
	labels_deinit(&labels);
	free(text);
	return 0;
}
