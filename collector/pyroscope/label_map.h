// SPDX-License-Identifier: Apache-2.0
// Names of labels as Pyroscope and Grafana have them, and selectors in them. This is the one place that knows of both names.
#pragma once

#include "base/contract/profile_type.h"
#include "base/error.h"
#include "collector/store/selector.h"

/** A label that is no label of ours, but a part of the profile type. */
struct type_label {
	const char *name;
	size_t part; // its place in struct profile_type; SIZE_MAX: all five parts
};

/** Our name of Pyroscope's label: "service_name" is "service". A name that is not in the table is the same in both. */
const char *label_map_to_ours(const char *theirs);
const char *label_map_to_theirs(const char *ours);

/** Is @name a part of the profile type? Then label_map_type_part() has its value of a type. */
const struct type_label *label_map_type_label(const char *name);
const struct type_label *label_map_type_labels(uint32_t *ret_count);
/** The part of @type (five parts), in @parts. */
const char *label_map_type_part(const struct type_label *label, const char *type,
				struct profile_type *parts);

struct pyroscope_selector {
	struct selector selector;      // in our names
	char type[PROFILE_TYPE_BYTES]; // of __profile_type__="..."; "": any
};

/**
 * selector_parse() of a selector in Pyroscope's names. __profile_type__ is understood with = only, and other parts of the type
 * not at all: -EINVAL.
 */
int pyroscope_selector_parse(const char *text, const char *tenant,
			     struct pyroscope_selector *ret_selector, struct error *err);
void pyroscope_selector_deinit(struct pyroscope_selector *selector);
