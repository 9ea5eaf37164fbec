// SPDX-License-Identifier: Apache-2.0
#include "collector/limits/limit_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/config/yaml_file.h"
#include "collector/access/access_file.h"

enum { NAME_BYTES = 64, VALUE_BYTES = 64 };

struct reading {
	const char *path;
	struct yaml_file *yaml;
	struct limit_file *file;
	struct error *err;
};

void limit_file_deinit(struct limit_file *file)
{
	free(file->tenants);
	*file = (struct limit_file){ 0 };
}

static int fail(const struct reading *reading, const char *words)
{
	return error_set(reading->err, -EINVAL, "limits: %.150s:%u: %.200s", reading->path,
			 yaml_file_line(reading->yaml), words);
}

static int next(struct reading *reading)
{
	return yaml_file_next(reading->yaml, reading->err);
}

/** The current node, which has to be a text. */
static int read_text(struct reading *reading, char *text, size_t size_max)
{
	size_t size;

	if (yaml_file_node(reading->yaml) != YAML_NODE_SCALAR)
		return fail(reading, "expected a name or a value");
	const char *read = yaml_file_text(reading->yaml, &size);
	if (!size || size >= size_max || strlen(read) != size)
		return fail(reading, "expected a text of 1 to 63 bytes");
	memcpy(text, read, size + 1);
	return 0;
}

/** Go on to a mapping, which has to follow. */
static int enter_mapping(struct reading *reading, const char *expected)
{
	int rc = next(reading);

	return rc                                                   ? rc
	       : yaml_file_node(reading->yaml) == YAML_NODE_MAPPING ? 0
								    : fail(reading, expected);
}

// ---- limits -----------------------------------------------------------------------------------

static int set_value(struct reading *reading, enum tenant_limit limit, const char *text,
		     struct tenant_values *values)
{
	const struct tenant_limit_spec *spec = tenant_limit_spec(limit);
	uint64_t value = 0;
	const struct config_option option = {
		.name = spec->name, .kind = spec->kind, .value = &value, .max = spec->max
	};
	char least[TENANT_LIMIT_TEXT_BYTES], words[160];
	struct error cause = { 0 };

	// 0 is the default of each kind, also without a unit.
	if (strcmp(text, "0") != 0 && config_set(&option, spec->name, text, &cause))
		return fail(reading, cause.text);
	if (value && value < spec->min) {
		snprintf(words, sizeof(words), "%s: at least %s, or 0: the default", spec->name,
			 tenant_limit_text(limit, spec->min, least));
		return fail(reading, words);
	}
	values->of[limit] = value;
	values->line[limit] = yaml_file_line(reading->yaml);
	return 0;
}

static int fail_name(struct reading *reading, const char *name)
{
	char words[200];
	int size = snprintf(words, sizeof(words), "\"%.60s\" is none of", name);

	for (int i = 0; i < TENANT_LIMITS; i++)
		size += snprintf(words + size, sizeof(words) - (size_t)size, "%s %s", i ? "," : "",
				 tenant_limit_spec((enum tenant_limit)i)->name);
	return fail(reading, words);
}

/** "ingest-rate: 4MiB", up to the end of the mapping that follows. */
static int read_values(struct reading *reading, struct tenant_values *values)
{
	char name[NAME_BYTES], text[VALUE_BYTES];
	int rc = enter_mapping(reading, "expected limits: \"ingest-rate: 4MiB\"");

	while (!rc && !(rc = next(reading)) &&
	       yaml_file_node(reading->yaml) != YAML_NODE_MAPPING_END) {
		if ((rc = read_text(reading, name, sizeof(name))))
			break;
		enum tenant_limit limit = tenant_limit_of_name(name);
		if (limit == TENANT_LIMITS)
			return fail_name(reading, name);
		if (values->line[limit])
			return fail(reading, "the limit was set already");
		if (!(rc = next(reading)) && !(rc = read_text(reading, text, sizeof(text))))
			rc = set_value(reading, limit, text, values);
	}
	return rc;
}

// ---- tenants ----------------------------------------------------------------------------------

/** The position of @name, or the one where it belongs. */
static uint32_t position_of(const struct limit_file *file, const char *name, bool *ret_found)
{
	uint32_t first = 0, end = file->count;

	*ret_found = false;
	while (first < end && !*ret_found) {
		uint32_t middle = first + (end - first) / 2;
		int order = strcmp(file->tenants[middle].name, name);

		if (order < 0)
			first = middle + 1;
		else
			end = middle;
		*ret_found = order == 0;
	}
	return *ret_found ? end : first;
}

static void insert(struct limit_file *file, uint32_t at, const struct limited_tenant *tenant)
{
	memmove(&file->tenants[at + 1], &file->tenants[at],
		(file->count - at) * sizeof(*file->tenants));
	file->tenants[at] = *tenant;
	file->count++;
}

static int read_tenant(struct reading *reading)
{
	struct limit_file *file = reading->file;
	struct limited_tenant tenant = { 0 };
	struct error cause = { 0 };
	char name[ACCESS_TENANT_BYTES];
	bool is_there;
	int rc = read_text(reading, name, sizeof(name));

	if (rc)
		return rc;
	if (access_tenant_parse(name, tenant.name, &cause))
		return fail(reading, cause.text);
	uint32_t at = position_of(file, tenant.name, &is_there);
	if (is_there)
		return fail(reading, "the tenant was named already");
	rc = array_reserve(&file->tenants, sizeof(*file->tenants), &file->capacity, file->count, 1,
			   LIMIT_FILE_TENANTS_MAX);
	if (rc)
		return rc == -ENOMEM ? error_set(reading->err, rc, "limits: out of memory")
				     : fail(reading, "more than 4096 tenants; use defaults");
	rc = read_values(reading, &tenant.values);
	if (!rc)
		insert(file, at, &tenant);
	return rc;
}

static int read_tenants(struct reading *reading)
{
	int rc = enter_mapping(reading, "expected tenants: \"shop: {ingest-rate: 4MiB}\"");

	while (!rc && !(rc = next(reading)) &&
	       yaml_file_node(reading->yaml) != YAML_NODE_MAPPING_END)
		rc = read_tenant(reading);
	return rc;
}

// ---- the file ---------------------------------------------------------------------------------

static int read_section(struct reading *reading, bool *has_defaults, bool *has_tenants)
{
	char name[NAME_BYTES];
	int rc = read_text(reading, name, sizeof(name));

	if (rc)
		return rc;
	bool is_defaults = strcmp(name, "defaults") == 0;
	if (!is_defaults && strcmp(name, "tenants") != 0)
		return fail(reading, "expected defaults or tenants");
	bool *has_it = is_defaults ? has_defaults : has_tenants;
	if (*has_it)
		return fail(reading, "the section is there already");
	*has_it = true;
	return is_defaults ? read_values(reading, &reading->file->defaults) : read_tenants(reading);
}

static int read_sections(struct reading *reading)
{
	bool has_defaults = false, has_tenants = false;
	int rc = next(reading);

	if (!rc && yaml_file_node(reading->yaml) == YAML_NODE_END)
		return 0; // an empty file
	if (!rc && yaml_file_node(reading->yaml) != YAML_NODE_MAPPING)
		return fail(reading, "expected defaults or tenants");
	while (!rc && !(rc = next(reading)) &&
	       yaml_file_node(reading->yaml) != YAML_NODE_MAPPING_END)
		rc = read_section(reading, &has_defaults, &has_tenants);
	while (!rc && yaml_file_node(reading->yaml) != YAML_NODE_END)
		rc = next(reading); // a second document is an error
	return rc;
}

int limit_file_read(const char *path, struct limit_file *ret_file, struct error *err)
{
	_cleanup_(yaml_file_closep) struct yaml_file *yaml = NULL;
	_cleanup_(limit_file_deinit) struct limit_file file = { 0 };
	int rc = yaml_file_open("limits", path, LIMIT_FILE_BYTES_MAX, &yaml, err);
	struct reading reading = { path, yaml, &file, err };

	if (!rc)
		rc = read_sections(&reading);
	if (rc)
		return rc;
	*ret_file = file;
	file = (struct limit_file){ 0 };
	return 0;
}

void limit_file_find(const struct limit_file *file, const char *tenant,
		     struct tenant_values *ret_values)
{
	bool is_there;
	uint32_t at = position_of(file, tenant, &is_there);
	const struct limited_tenant *own = is_there ? &file->tenants[at] : NULL;

	for (int i = 0; i < TENANT_LIMITS; i++) {
		const struct tenant_values *from =
			own && own->values.of[i] ? &own->values : &file->defaults;
		bool is_set = from->of[i];

		ret_values->of[i] =
			is_set ? from->of[i] : tenant_limit_spec((enum tenant_limit)i)->preset;
		ret_values->line[i] = is_set ? from->line[i] : 0;
	}
}
