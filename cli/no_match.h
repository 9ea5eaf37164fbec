// SPDX-License-Identifier: Apache-2.0
// Why a collector has nothing for a selector, and what was probably meant.
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "cli/api_request.h"

/** What is stored in the range: arrays of strings; NULL or empty: nothing. */
struct stored_names {
	const json_t *labels;   // names of labels
	const json_t *services; // values of the label "service"
	const json_t *types;    // profile types, in five parts, of the selected series alone
};

/**
 * Fill @err with why nothing matches @selector: a label that no series has, no such series, or none of the
 * profile type @type (five parts; NULL: of any). @range: " in 12:00-12:15 UTC", or "". Returns -ENODATA; 0
 * if series match and no type was asked for.
 */
int no_match_explain(const char *selector, const char *range, const char *type,
		     const struct stored_names *stored, struct error *err);

/** Ask the collector what is stored, and explain; without an answer only that nothing matches. As above. */
int no_match_ask(const struct api_request *request, const char *type, struct error *err);

enum { RANGE_TEXT_BYTES = 80, NAMES_TEXT_BYTES = 400 };

/** The five of @names (an array of strings) that are nearest to @typed, with commas between, and "..." for more. Returns @text. */
const char *nearest_names(const json_t *names, const char *typed, char text[NAMES_TEXT_BYTES]);

/**
 * " in 12:00-12:15 UTC" for nanoseconds since 1970; with seconds if it is short, with dates unless it is of
 * @now_ns's day. Returns @text.
 */
const char *range_text(uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
		       char text[RANGE_TEXT_BYTES]);
