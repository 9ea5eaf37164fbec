// SPDX-License-Identifier: Apache-2.0
// Selectors as people type them, with one more matcher. The collector is who understands them; here
// no more is read than where names and quotes are.
#pragma once

#include <stdbool.h>

enum { SELECTOR_LABEL_BYTES = 64, SELECTOR_VALUE_BYTES = 128 };

/** Where the matchers of @selector begin; "" if it is a bare word. */
const char *selector_text_matchers(const char *selector);

/**
 * The next label's name at or after @at, which is what selector_text_matchers() or the last call returned; a longer
 * one is cut. NULL: there are no more.
 */
const char *selector_text_next_label(const char *at, char ret_label[SELECTOR_LABEL_BYTES]);

/** The service that @selector asks for: the bare word, or the value of the label "service"; "": none. */
void selector_text_service(const char *selector, char ret_service[SELECTOR_VALUE_BYTES]);

/** Does @selector have a matcher of the label @name? */
bool selector_text_names(const char *selector, const char *name);

/**
 * @selector ("", a bare word for a service, or "{...}") and @matcher, for the caller to free. NULL
 * when out of memory, or when it is none of these: the collector will say what is wrong with it.
 */
char *selector_text_with(const char *selector, const char *matcher);
