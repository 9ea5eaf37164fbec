// SPDX-License-Identifier: Apache-2.0
// Selectors as people type them, with one more matcher. The collector is who understands them; here
// no more is read than where names and quotes are.
#pragma once

#include <stdbool.h>

/** Does @selector have a matcher of the label @name? */
bool selector_text_names(const char *selector, const char *name);

/**
 * @selector ("", a bare word for a service, or "{...}") and @matcher, for the caller to free. NULL
 * when out of memory, or when it is none of these: the collector will say what is wrong with it.
 */
char *selector_text_with(const char *selector, const char *matcher);
