// SPDX-License-Identifier: Apache-2.0
#include "collector/pyroscope/label_map.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"

#define PROFILE_TYPE_LABEL "__profile_type__"

static const struct {
	const char *theirs, *ours;
} renamed[] = {
	{ "service_name", LABEL_SERVICE },
};

static const struct type_label type_labels[] = {
	{ PROFILE_TYPE_LABEL, SIZE_MAX },
	{ "__name__", offsetof(struct profile_type, name) },
	{ "__type__", offsetof(struct profile_type, sample_type) },
	{ "__unit__", offsetof(struct profile_type, sample_unit) },
	{ "__period_type__", offsetof(struct profile_type, period_type) },
	{ "__period_unit__", offsetof(struct profile_type, period_unit) },
};

const char *label_map_to_ours(const char *theirs)
{
	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++)
		if (strcmp(theirs, renamed[i].theirs) == 0)
			return renamed[i].ours;
	return theirs;
}

const char *label_map_to_theirs(const char *ours)
{
	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++)
		if (strcmp(ours, renamed[i].ours) == 0)
			return renamed[i].theirs;
	return ours;
}

const struct type_label *label_map_type_labels(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(type_labels);
	return type_labels;
}

const struct type_label *label_map_type_label(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(type_labels); i++)
		if (strcmp(name, type_labels[i].name) == 0)
			return &type_labels[i];
	return NULL;
}

const char *label_map_type_part(const struct type_label *label, const char *type,
				struct profile_type *parts)
{
	if (label->part == SIZE_MAX)
		return type;
	return profile_type_parse(type, parts, NULL) ? "" : (const char *)parts + label->part;
}

static int rename_matcher(struct matcher *matcher, struct error *err)
{
	const char *ours = label_map_to_ours(matcher->name);

	if (ours == matcher->name)
		return 0;
	char *name = strdup(ours);
	if (!name)
		return error_set(err, -ENOMEM, "out of memory for the selector");
	free(matcher->name);
	matcher->name = name;
	return 0;
}

/** Take the type out of the selector: no series has it as a label, so that a comparison with "" holds for all. */
static int take_type(struct matcher *matcher, struct pyroscope_selector *selector,
		     struct error *err)
{
	const char *value = matcher->value;

	if (strcmp(matcher->name, PROFILE_TYPE_LABEL) != 0 || matcher->op != MATCH_EQUAL)
		return error_set(
			err, -EINVAL,
			"%.40s: a profile type is selected as %s=\"name:type:unit:type:unit\"",
			matcher->name, PROFILE_TYPE_LABEL);
	if (*value && profile_type_parse(value, &(struct profile_type){ 0 }, err))
		return -EINVAL;
	if (*value)
		snprintf(selector->type, sizeof(selector->type), "%s", value);
	matcher->value[0] = '\0';
	return 0;
}

static int map_matchers(struct pyroscope_selector *selector, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < selector->selector.count; i++) {
		struct matcher *matcher = &selector->selector.matchers[i];

		if (matcher->is_tenant)
			continue;
		rc = label_map_type_label(matcher->name) ? take_type(matcher, selector, err)
							 : rename_matcher(matcher, err);
	}
	return rc;
}

int pyroscope_selector_parse(const char *text, const char *tenant,
			     struct pyroscope_selector *ret_selector, struct error *err)
{
	struct pyroscope_selector selector = { 0 };
	int rc = selector_parse(text, tenant, &selector.selector, err);

	if (rc)
		return rc;
	rc = map_matchers(&selector, err);
	if (rc) {
		pyroscope_selector_deinit(&selector);
		return rc;
	}
	*ret_selector = selector;
	return 0;
}

void pyroscope_selector_deinit(struct pyroscope_selector *selector)
{
	selector_deinit(&selector->selector);
}
