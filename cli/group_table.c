// SPDX-License-Identifier: Apache-2.0
#include "cli/group_table.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract/profile_type.h"
#include "base/saturating.h"
#include "cli/api_request.h"
#include "cli/printable_text.h"

static const json_t *groups_of(const json_t *root)
{
	const json_t *groups = json_object_get(root, "groups");

	return groups ? groups : json_object_get(root, "series");
}

static json_int_t integer_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool group_table_has_values(const json_t *root)
{
	const json_t *group;
	size_t i;

	json_array_foreach(groups_of(root), i, group) if (integer_of(group, "total")) return true;
	return json_array_size(json_object_get(root, "rows")) || integer_of(root, "total");
}

/* Nanoseconds as seconds, all else as it is. */
static void print_value(const char *unit, const char *seconds_format, const char *format,
			json_int_t value, FILE *stream)
{
	if (strcmp(unit, "nanoseconds") == 0)
		fprintf(stream, seconds_format, (double)value / NS_PER_SECOND);
	else
		fprintf(stream, format, (long long)value);
}

static void print_groups(const json_t *groups, const char *unit, double sum, uint32_t rows_max,
			 FILE *stream)
{
	const json_t *group;
	size_t i;

	json_array_foreach(groups, i, group)
	{
		json_int_t total = integer_of(group, "total");
		char name[FUNCTION_NAME_BYTES];

		if (i == rows_max)
			break;
		json_word_of(group, "group", name, sizeof(name));
		fprintf(stream, "%7.2f ", sum > 0 ? 100 * (double)total / sum : 0);
		print_value(unit, "%16.3f", "%16lld", total, stream);
		fprintf(stream, "  %s\n", *name ? name : "-");
	}
}

int group_table_print(const json_t *root, const char *labels, uint32_t rows_max, FILE *stream)
{
	bool is_gauge = profile_type_is_gauge(json_text_of(root, "type"));
	const json_t *groups = groups_of(root), *group;
	json_int_t sum = 0, count = integer_of(root, "group_count");
	char unit[PROFILE_TYPE_PART_BYTES];
	size_t i;

	if (!json_is_array(groups))
		return -EBADMSG;
	json_array_foreach(groups, i, group) sum = add_saturating(sum, integer_of(group, "total"));
	json_word_of(root, "unit", unit, sizeof(unit));

	bool is_time = strcmp(unit, "nanoseconds") == 0;
	print_value(unit, "%.3f", "%lld", sum, stream);
	fprintf(stream, " %s %s", is_time ? "s" : unit, is_gauge ? "on average" : "in total");
	if (count > (json_int_t)json_array_size(groups))
		fprintf(stream, ", in the %zu largest of %lld", json_array_size(groups),
			(long long)count);
	fprintf(stream, "\n%7s %16s  %s\n", "share%", is_time ? "s" : unit, labels);
	print_groups(groups, unit, (double)sum, rows_max, stream);
	return 0;
}
