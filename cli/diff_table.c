// SPDX-License-Identifier: Apache-2.0
#include "cli/diff_table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_types.h"
#include "base/utf8.h"
#include "cli/api_request.h"
#include "cli/no_match.h"
#include "cli/printable_text.h"

enum { P_BYTES = 16, FIGURE_BYTES = 32, UNIT_BYTES = 64, KIND_BYTES = 32 };

#define P_MIN 0.001 // less is not told apart

/* By ECMA-48's numbers. Red and blue are told apart by those who see no green, too. */
#define COLOUR_GROWN  "\033[31m"
#define COLOUR_SHRUNK "\033[34m"
#define COLOUR_DIM    "\033[2m"
#define COLOUR_END    "\033[0m"

static const char *const change_words[] = { "new", "gone", "grown", "shrunk" };

/** What values are printed in. */
struct scale {
	double divisors[2];
	double factor;
	const char *format; // of a value
	const char *change; // of a difference
	char unit[UNIT_BYTES];
};

/** A function's compared value. */
struct change {
	double values[2]; // comparable
	double p;
	bool enough, significant;
};

// ---- what is printed in what -----------------------------------------------------------------------------

static double divisor_of(const json_t *root, const char *side)
{
	return json_number_value(json_object_get(json_object_get(root, side), "divisor"));
}

static struct scale scale_of(const json_t *root)
{
	const struct profile_type_spec *spec = profile_type_spec(json_text_of(root, "type"));
	const char *unit = json_text_of(root, "unit");
	const char *per = strcmp(json_text_of(root, "per"), "none") ? " per instance" : "";
	struct scale scale = { .divisors = { divisor_of(root, "a"), divisor_of(root, "b") } };

	if (strcmp(json_text_of(root, "norm"), "share") == 0) {
		scale.factor = 100;
		scale.format = "%10.2f";
		scale.change = "%+10.2f";
		snprintf(scale.unit, sizeof(scale.unit), "%% of the side's total");
	} else if (strcmp(unit, "nanoseconds") == 0) {
		scale.factor = 1;
		scale.format = "%10.4f";
		scale.change = "%+10.4f";
		snprintf(scale.unit, sizeof(scale.unit), "%s%s",
			 spec && spec->rate ? spec->rate : "s per second", per);
	} else {
		scale.factor = NS_PER_SECOND;
		scale.format = "%10.4g";
		scale.change = "%+10.4g";
		snprintf(scale.unit, sizeof(scale.unit), "%.24s per second%s", unit, per);
	}
	utf8_clean(scale.unit);
	return scale;
}

static double normal(const struct scale *scale, int side, double value)
{
	return scale->divisors[side] > 0 ? value / scale->divisors[side] * scale->factor : 0;
}

static struct change change_of(const struct scale *scale, const json_t *value)
{
	static const char *const sides[] = { "a", "b" };
	struct change change = {
		.p = json_number_value(json_object_get(value, "p")),
		.enough = json_is_true(json_object_get(value, "enough")),
		.significant = json_is_true(json_object_get(value, "significant")),
	};

	for (int side = 0; side < 2; side++)
		change.values[side] =
			normal(scale, side, json_number_value(json_object_get(value, sides[side])));
	return change;
}

static const char *word_of(const struct change *change)
{
	if (change->values[0] == 0 && change->values[1] != 0)
		return "new";
	if (change->values[1] == 0 && change->values[0] != 0)
		return "gone";
	return change->values[1] > change->values[0]   ? "grown"
	       : change->values[1] < change->values[0] ? "shrunk"
						       : "same";
}

/* "+54 %", "new". */
static const char *percent_text(const struct change *change, char text[FIGURE_BYTES])
{
	double percent =
		change->values[0] > 0 ? 100 * (change->values[1] / change->values[0] - 1) : 0;

	if (change->values[0] == 0 || change->values[1] == 0)
		snprintf(text, FIGURE_BYTES, "%s",
			 change->values[0] == change->values[1] ? "" : word_of(change));
	else if (percent > 9999)
		snprintf(text, FIGURE_BYTES, "x%.0f", change->values[1] / change->values[0]);
	else
		snprintf(text, FIGURE_BYTES, "%+.0f%%", percent);
	return text;
}

static const char *p_text(const struct change *change, char text[P_BYTES])
{
	if (!change->enough)
		snprintf(text, P_BYTES, "few");
	else if (change->p < P_MIN)
		snprintf(text, P_BYTES, "<%g", P_MIN);
	else
		snprintf(text, P_BYTES, "%.3f", change->p);
	return text;
}

// ---- the sides ---------------------------------------------------------------------------------------------

static uint64_t moment_of(const json_t *ranges, size_t range, size_t end)
{
	return (uint64_t)json_integer_value(json_array_get(json_array_get(ranges, range), end));
}

static void print_side(const json_t *root, const char *name, const struct scale *scale, int side,
		       FILE *stream)
{
	const json_t *object = json_object_get(root, name);
	const json_t *ranges = json_object_get(object, "ranges_ns");
	size_t count = json_array_size(ranges);
	char query[FUNCTION_NAME_BYTES], range[RANGE_TEXT_BYTES];
	double total = json_number_value(json_object_get(object, "total"));
	json_int_t instances = json_integer_value(json_object_get(object, "instances"));

	json_word_of(object, "query", query, sizeof(query));
	range_text(moment_of(ranges, 0, 0), moment_of(ranges, count - 1, 1), clock_realtime_ns(),
		   range);
	fprintf(stream, "%c  %s%s", *name - 'a' + 'A', *query ? query : "{}", range);
	if (count > 1)
		fprintf(stream, ", %zu parts of it", count);
	if (strcmp(json_text_of(root, "norm"), "share") != 0)
		fprintf(stream, ": %.4g %s", normal(scale, side, total), scale->unit);
	if (strcmp(json_text_of(root, "per"), "none") != 0)
		fprintf(stream, ", %lld %s", (long long)instances,
			instances == 1 ? "instance" : "instances");
	fputc('\n', stream);
}

// ---- the table -----------------------------------------------------------------------------------------------

static bool is_listed(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, size) == 0 && (at[size] == ',' || !at[size]))
			return true;
	}
	return false;
}

int diff_only_check(const char *only, struct error *err)
{
	for (const char *at = only; at; at = strchr(at, ',')) {
		bool known = false;

		at += *at == ',';
		size_t size = strcspn(at, ",");
		for (size_t i = 0; i < ARRAY_SIZE(change_words); i++)
			known |= strlen(change_words[i]) == size &&
				 strncmp(change_words[i], at, size) == 0;
		if (!known)
			return error_set(err, -EINVAL,
					 "--only: \"%.*s\" is not one of new, gone, grown, shrunk",
					 (int)(size < 40 ? size : 40), at);
	}
	return 0;
}

static bool is_chosen(const struct diff_choice *choice, const struct change *change)
{
	return (choice->all || change->significant) && change->values[0] != change->values[1] &&
	       (!choice->only || is_listed(choice->only, word_of(change)));
}

static void print_row(const json_t *function, const struct change *change,
		      const struct scale *scale, const struct diff_choice *choice, FILE *stream)
{
	const char *colour = !change->significant                    ? COLOUR_DIM
			     : change->values[1] > change->values[0] ? COLOUR_GROWN
								     : COLOUR_SHRUNK;
	char name[FUNCTION_NAME_BYTES], kind[KIND_BYTES], percent[FIGURE_BYTES], p[P_BYTES];

	json_word_of(function, "name", name, sizeof(name));
	json_word_of(function, "kind", kind, sizeof(kind));
	if (choice->colour)
		fputs(colour, stream);
	for (int side = 0; side < 2; side++)
		fprintf(stream, scale->format, change->values[side]);
	fprintf(stream, scale->change, change->values[1] - change->values[0]);
	fprintf(stream, " %8s %7s%c %-7s %s", percent_text(change, percent), p_text(change, p),
		change->significant ? ' ' : '?', kind, name);
	fputs(choice->colour ? COLOUR_END "\n" : "\n", stream);
}

static void print_counts(const json_t *root, uint32_t chosen, uint32_t rows, uint32_t significant,
			 const struct diff_choice *choice, FILE *stream)
{
	uint32_t functions = (uint32_t)json_integer_value(json_object_get(root, "function_count"));

	if (chosen > rows)
		fprintf(stream, "%u more; --limit shows them\n", chosen - rows);
	if (!significant)
		fprintf(stream,
			"No function of %u changed significantly; a longer range tells "
			"more%s.\n",
			functions, choice->all ? "" : ", --all shows what there is");
	else if (!choice->all)
		fprintf(stream,
			"%u of %u functions changed significantly; --all shows the "
			"others.\n",
			significant, functions);
}

int diff_table_print(const json_t *root, const struct diff_choice *choice, FILE *stream,
		     uint32_t *ret_significant)
{
	const json_t *functions = json_object_get(root, "functions"), *function;
	uint32_t rows = 0, chosen = 0, significant = 0;
	size_t i;

	if (!json_is_array(functions) || !json_is_object(json_object_get(root, "b")))
		return -EBADMSG;

	const struct scale scale = scale_of(root);

	print_side(root, "a", &scale, 0, stream);
	print_side(root, "b", &scale, 1, stream);
	if (strcmp(json_text_of(root, "norm"), "share") == 0)
		fprintf(stream, "in %s\n", scale.unit);
	fprintf(stream, "\n%10s%10s%10s %8s %8s %-7s %s\n", "A", "B", "change", "", "p ", "kind",
		choice->by_total ? "function (total)" : "function (self)");
	json_array_foreach(functions, i, function)
	{
		const json_t *value =
			json_object_get(function, choice->by_total ? "total" : "self");
		const struct change change = change_of(&scale, value);

		significant += change.significant;
		if (!is_chosen(choice, &change))
			continue;
		chosen++;
		if (rows == choice->rows_max)
			continue;
		rows++;
		print_row(function, &change, &scale, choice, stream);
	}
	print_counts(root, chosen, rows, significant, choice, stream);
	*ret_significant = significant;
	return 0;
}
