// SPDX-License-Identifier: Apache-2.0
#include "base/config/config_setting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config_quantity.h"
#include "base/edit_distance.h"

const struct config_option *config_find(const struct config_program *program, const char *name)
{
	for (uint32_t i = 0; i < program->option_count; i++) {
		if (strcmp(program->options[i].name, name) == 0)
			return &program->options[i];
	}
	return NULL;
}

// ---- the nearest name -----------------------------------------------------------------------

static const char *nearest_name(const struct config_program *program, const char *name)
{
	static const char *const built_in[] = { "config", "help", "version" };
	const char *nearest = NULL;
	uint32_t least = edit_distance_of_slip(name) + 1;

	for (uint32_t i = 0; i < program->option_count + ARRAY_SIZE(built_in); i++) {
		const char *known = i < program->option_count ? program->options[i].name
							      : built_in[i - program->option_count];
		uint32_t distance = edit_distance(name, known);

		if (distance < least) {
			least = distance;
			nearest = known;
		}
	}
	return nearest;
}

const struct config_option *config_slip_of(const struct config_program *program, const char *name)
{
	size_t letters = strnlen(name, CONFIG_NAME_BYTES);
	unsigned int slip = letters >= 8 ? 2 : letters >= 4 ? 1 : 0;

	for (uint32_t i = 0; i < program->option_count; i++) {
		if (edit_distance(name, program->options[i].name) <= slip)
			return &program->options[i];
	}
	return NULL;
}

int config_unknown(const struct config_program *program, const char *where, const char *name,
		   struct error *err)
{
	size_t dashes = strspn(name, "-");
	const char *nearest = nearest_name(program, name + dashes);

	if (nearest)
		return error_set(err, -EINVAL,
				 "%s: there is no setting \"%.60s\"; did you mean \"%.*s%s\"?",
				 where, name, (int)dashes, name, nearest);
	return error_set(err, -EINVAL, "%s: there is no setting \"%.60s\"; %s --help lists them",
			 where, name, program->name);
}

// ---- values ---------------------------------------------------------------------------------

static int set_string(char **value, const char *where, const char *text, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_errno(err, -ENOMEM, "%s", where);
	free(*value);
	*value = copy;
	return 0;
}

static int set_bool(bool *value, const char *where, const char *text, struct error *err)
{
	bool is_true = strcmp(text, "true") == 0;

	if (!is_true && strcmp(text, "false") != 0)
		return error_set(err, -EINVAL, "%s: \"%.60s\" is neither true nor false", where,
				 text);
	*value = is_true;
	return 0;
}

static int uint_parse(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return -ERANGE;
	}
	*ret_value = value;
	return 0;
}

struct unit_name {
	uint64_t factor;
	const char *name;
};

static const struct unit_name duration_units[] = {
	{ 86400 * NS_PER_SECOND, "d" },
	{ 3600 * NS_PER_SECOND, "h" },
	{ 60 * NS_PER_SECOND, "m" },
	{ NS_PER_SECOND, "s" },
	{ NS_PER_MS, "ms" },
	{ NS_PER_US, "us" },
	{ 1, "ns" },
};

static const struct unit_name size_units[] = {
	{ 1ULL << 40, "TiB" },
	{ 1ULL << 30, "GiB" },
	{ 1ULL << 20, "MiB" },
	{ 1ULL << 10, "KiB" },
	{ 1, "B" },
};

static const struct unit_name uint_units[] = { { 1, "" } };

// What is special about each kind that is a number.
static const struct number_kind {
	int (*parse)(const char *text, uint64_t *ret_value);
	const struct unit_name *units; // largest first, the last one is 1
	const char *what;
	const char *forms;
} number_kinds[] = {
	[CONFIG_UINT] = { uint_parse, uint_units, "a whole number", "digits only" },
	[CONFIG_DURATION] = { duration_parse, duration_units, "a duration", "20ms, 5s, 2h or 7d" },
	[CONFIG_SIZE] = { size_parse, size_units, "a size", "512, 64MiB or 1GB" },
};

// A bound in the largest unit that has it whole.
static void format_number(const struct number_kind *kind, uint64_t value, char *text, size_t size)
{
	const struct unit_name *unit = kind->units;

	while (unit->factor > 1 && (value == 0 || value % unit->factor != 0))
		unit++;
	snprintf(text, size, "%" PRIu64 "%s", value / unit->factor, unit->name);
}

static int set_number(const struct config_option *option, const char *where, const char *text,
		      struct error *err)
{
	const struct number_kind *kind = &number_kinds[option->kind];
	char bound[40];
	uint64_t value;
	int rc = kind->parse(text, &value);

	if (rc == -ERANGE)
		return error_set(err, rc, "%s: \"%.60s\" is too large", where, text);
	if (rc < 0)
		return error_set(err, rc, "%s: \"%.60s\" is not %s; write it as %s", where, text,
				 kind->what, kind->forms);
	if (value < option->min) {
		format_number(kind, option->min, bound, sizeof(bound));
		return error_set(err, -ERANGE, "%s: \"%.60s\" is below the least allowed, %s",
				 where, text, bound);
	}
	if (option->max && value > option->max) {
		format_number(kind, option->max, bound, sizeof(bound));
		return error_set(err, -ERANGE, "%s: \"%.60s\" is above the most allowed, %s", where,
				 text, bound);
	}
	*(uint64_t *)option->value = value;
	return 0;
}

static int set_label(struct labels *labels, const char *where, const char *text, struct error *err)
{
	struct error cause = { 0 };
	int rc = labels_parse_pair(labels, text, &cause);

	return rc < 0 ? error_set(err, rc, "%s: %s", where, cause.text) : 0;
}

int config_set(const struct config_option *option, const char *where, const char *text,
	       struct error *err)
{
	switch (option->kind) {
	case CONFIG_STRING:
		return set_string(option->value, where, text, err);
	case CONFIG_BOOL:
		return set_bool(option->value, where, text, err);
	case CONFIG_LABELS:
		return set_label(option->value, where, text, err);
	case CONFIG_UINT:
	case CONFIG_DURATION:
	case CONFIG_SIZE:
		break;
	}
	return set_number(option, where, text, err);
}

int config_set_list(const struct config_option *option, const char *where, const char *text,
		    struct error *err)
{
	if (option->kind != CONFIG_LABELS)
		return config_set(option, where, text, err);

	_cleanup_free_ char *copy = strdup(text);
	if (!copy)
		return error_errno(err, -ENOMEM, "%s", where);

	char *rest = copy;
	for (char *pair = strsep(&rest, ","); pair; pair = strsep(&rest, ",")) {
		int rc = *pair ? set_label(option->value, where, pair, err) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}
