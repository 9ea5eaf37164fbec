// SPDX-License-Identifier: Apache-2.0
#include "collector/profile_metrics/profile_metric_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config/yaml_file.h"
#include "base/contract/profile_type.h"
#include "base/contract/profile_types.h"
#include "collector/store/selector.h"

struct reading {
	const char *path;
	struct yaml_file *yaml;
	struct profile_metric_list *list;
	struct error *err;
};

static void metric_deinit(struct profile_metric *metric)
{
	free(metric->name);
	free(metric->type_text);
	free(metric->query);
	free(metric->function);
	regex_free(metric->regex);
}

void profile_metric_list_deinit(struct profile_metric_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		metric_deinit(&list->metrics[i]);
	list->count = 0;
}

static int fail(const struct reading *reading, uint32_t line, const char *words)
{
	return error_set(reading->err, -EINVAL, "%.150s:%u: %.200s", reading->path, line, words);
}

static int fail_memory(const struct reading *reading)
{
	return error_set(reading->err, -ENOMEM, "%.150s: out of memory", reading->path);
}

static uint32_t line_of(const struct reading *reading)
{
	return yaml_file_line(reading->yaml);
}

static int read_text(struct reading *reading, char **ret_text)
{
	size_t size;
	const char *text = yaml_file_text(reading->yaml, &size);

	if (yaml_file_node(reading->yaml) != YAML_NODE_SCALAR || strlen(text) != size || !size ||
	    size >= PROFILE_METRIC_TEXT_BYTES_MAX)
		return fail(reading, line_of(reading), "expected a text of 1 to 1023 bytes");
	*ret_text = strdup(text);
	return *ret_text ? 0 : fail_memory(reading);
}

/** Where the field @name is kept; NULL: there is none. */
static char **field_of(struct profile_metric *metric, const char *name)
{
	return strcmp(name, "name") == 0       ? &metric->name
	       : strcmp(name, "type") == 0     ? &metric->type_text
	       : strcmp(name, "query") == 0    ? &metric->query
	       : strcmp(name, "function") == 0 ? &metric->function
					       : NULL;
}

static int read_field(struct reading *reading, struct profile_metric *metric)
{
	_cleanup_free_ char *name = NULL;
	uint32_t line = line_of(reading);
	int rc = read_text(reading, &name);

	if (rc)
		return rc;
	char **field = field_of(metric, name);
	if (!field)
		return fail(reading, line, "a metric has name, type, query and function");
	if (*field)
		return fail(reading, line, "the field was set already");
	rc = yaml_file_next(reading->yaml, reading->err);
	return rc ? rc : read_text(reading, field);
}

// ---- what a metric must be --------------------------------------------------------------------

static bool is_name(const char *name)
{
	size_t size =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return size && !name[size] && size <= PROFILE_METRIC_NAME_BYTES_MAX;
}

static bool is_taken(const struct profile_metric_list *list, const char *name)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (strcmp(list->metrics[i].name, name) == 0)
			return true;
	return false;
}

/** A share is of stacks, and of what adds up. */
static int check_type(struct profile_metric *metric, struct error *err)
{
	const struct profile_type_spec *spec;
	int rc = profile_type_of_text(metric->type_text ? metric->type_text : "cpu", &metric->type,
				      err);

	if (rc)
		return rc;
	spec = profile_type_spec(metric->type);
	if (spec && spec->no_stacks)
		return error_set(err, -EINVAL, "type: %s has no stacks", spec->title);
	return profile_type_is_gauge(metric->type)
		       ? error_set(err, -EINVAL, "type: a level has no share")
		       : 0;
}

static int check_query(const struct profile_metric *metric, struct error *err)
{
	_cleanup_(selector_deinit) struct selector selector = { 0 };

	return selector_parse(metric->query ? metric->query : "{}", SELECTOR_ALL_TENANTS, &selector,
			      err);
}

static int check(const struct profile_metric_list *list, struct profile_metric *metric,
		 struct error *err)
{
	if (!metric->name || !is_name(metric->name))
		return error_set(err, -EINVAL,
				 "name: expected one of at most 64 letters, digits, '_', '.' and "
				 "'-'");
	if (is_taken(list, metric->name))
		return error_set(err, -EINVAL, "name: there is a metric of that name already");
	if (!metric->function)
		return error_set(err, -EINVAL, "function: missing, a regular expression");
	int rc = check_type(metric, err);
	if (!rc)
		rc = check_query(metric, err);
	return rc ? rc
		  : regex_compile(metric->function, PROFILE_METRIC_TEXT_BYTES_MAX,
				  PROFILE_METRIC_MATCH_STEPS_MAX, &metric->regex, err);
}

// ---- the file ---------------------------------------------------------------------------------

static int read_fields(struct reading *reading, struct profile_metric *metric)
{
	if (yaml_file_node(reading->yaml) != YAML_NODE_MAPPING)
		return fail(reading, line_of(reading), "expected a metric: \"- name: …\"");
	for (;;) {
		int rc = yaml_file_next(reading->yaml, reading->err);

		if (rc || yaml_file_node(reading->yaml) == YAML_NODE_MAPPING_END)
			return rc;
		rc = read_field(reading, metric);
		if (rc)
			return rc;
	}
}

static int read_metric(struct reading *reading)
{
	struct profile_metric_list *list = reading->list;
	struct profile_metric metric = { 0 };
	uint32_t line = line_of(reading);
	struct error cause = { 0 };
	int rc = read_fields(reading, &metric);

	if (!rc && list->count == PROFILE_METRICS_MAX)
		rc = fail(reading, line, "more than 32 metrics");
	if (!rc && (rc = check(list, &metric, &cause)))
		rc = rc == -ENOMEM ? fail_memory(reading) : fail(reading, line, cause.text);
	if (rc) {
		metric_deinit(&metric);
		return rc;
	}
	list->metrics[list->count++] = metric;
	return 0;
}

static int read_list(struct reading *reading)
{
	int rc = yaml_file_next(reading->yaml, reading->err);

	if (!rc && yaml_file_node(reading->yaml) != YAML_NODE_LIST)
		rc = fail(reading, line_of(reading), "expected a list of metrics: \"- name: …\"");
	while (!rc) {
		rc = yaml_file_next(reading->yaml, reading->err);
		if (rc || yaml_file_node(reading->yaml) == YAML_NODE_LIST_END)
			break;
		rc = read_metric(reading);
	}
	while (!rc && yaml_file_node(reading->yaml) != YAML_NODE_END)
		rc = yaml_file_next(reading->yaml, reading->err); // a second document is an error
	return rc;
}

int profile_metric_file_read(const char *path, struct profile_metric_list *ret_list,
			     struct error *err)
{
	_cleanup_(yaml_file_closep) struct yaml_file *yaml = NULL;
	int rc = yaml_file_open("profile metrics", path, PROFILE_METRIC_FILE_BYTES_MAX, &yaml, err);
	struct reading reading = { path, yaml, ret_list, err };

	*ret_list = (struct profile_metric_list){ 0 };
	if (rc)
		return rc;
	reading.yaml = yaml;
	return read_list(&reading);
}
