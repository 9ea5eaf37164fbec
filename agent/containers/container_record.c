// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/container_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/containers/bounded_json.h"
#include "base/utf8.h"

#define META_PREFIX     "__meta_docker_container_" // as Prometheus's discovery of Docker has them
#define COMPOSE_SERVICE "com.docker.compose.service"
#define COMPOSE_PROJECT "com.docker.compose.project"

void container_record_deinit(struct container_record *record)
{
	meta_labels_deinit(&record->meta);
}

static void set_text(char ret_text[CONTAINER_NAME_BYTES], const char *text)
{
	snprintf(ret_text, CONTAINER_NAME_BYTES, "%s", text);
	utf8_clean(ret_text);
}

static int add_meta(struct container_record *record, const struct relabel_rules *rules,
		    const char *prefix, const char *name, const char *value)
{
	char full_name[META_LABEL_NAME_BYTES_MAX + 1];

	meta_labels_name(prefix, name, full_name);
	return relabel_rules_read_label(rules, full_name)
		       ? meta_labels_add(&record->meta, prefix, name, value)
		       : 0;
}

static int add_label_meta(struct container_record *record, const struct relabel_rules *rules,
			  const json_t *labels)
{
	uint32_t left = CONTAINER_LABELS_MAX;
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach((json_t *)labels, key, value)
	{
		if (rc || !left || !json_is_string(value))
			continue;
		left--;
		rc = add_meta(record, rules, META_PREFIX "label_", key, json_string_value(value));
	}
	return rc;
}

/* What both runtimes have. Docker's names begin with '/'. */
static int fill(struct container_record *record, const struct relabel_rules *rules, const char *id,
		const char *name, const char *image)
{
	set_text(record->name, name + strspn(name, "/"));
	set_text(record->service, record->name);
	image_version(image, record->version);
	int rc = add_meta(record, rules, META_PREFIX "id", "", id);

	if (!rc)
		rc = add_meta(record, rules, META_PREFIX "name", "", record->name);
	return rc ? rc : add_meta(record, rules, META_PREFIX "image", "", image);
}

static int read_docker(const json_t *json, const char *id, const struct relabel_rules *rules,
		       struct container_record *record)
{
	const json_t *config = json_object_get(json, "Config");
	const json_t *labels = json_object_get(config, "Labels");
	const char *service = bounded_json_string(labels, COMPOSE_SERVICE);

	if (strcmp(bounded_json_string(json, "ID"), id) != 0)
		return -ENOENT;
	int rc = fill(record, rules, id, bounded_json_string(json, "Name"),
		      bounded_json_string(config, "Image"));

	if (service[0])
		set_text(record->service, service);
	set_text(record->project, bounded_json_string(labels, COMPOSE_PROJECT));
	return rc || !rules ? rc : add_label_meta(record, rules, labels);
}

int container_record_read_docker(const char *text, size_t size, const char *id,
				 const struct relabel_rules *rules,
				 struct container_record *ret_record)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);
	struct container_record record = { 0 };
	int rc = json ? read_docker(json, id, rules, &record) : -EBADMSG;

	if (rc)
		container_record_deinit(&record);
	else
		*ret_record = record;
	return rc;
}

/* Podman's own words are JSON in a text. */
static int read_podman(const json_t *json, const struct relabel_rules *rules,
		       struct container_record *record)
{
	const char *metadata = bounded_json_string(json, "metadata");
	_cleanup_json_ json_t *own = bounded_json_parse(metadata, strlen(metadata));
	const char *name = json_string_value(json_array_get(json_object_get(json, "names"), 0));

	return fill(record, rules, bounded_json_string(json, "id"),
		    name ? name : bounded_json_string(own, "name"),
		    bounded_json_string(own, "image-name"));
}

int container_record_read_podman(const char *text, size_t size, const char *id,
				 const struct relabel_rules *rules,
				 struct container_record *ret_record)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);
	struct container_record record = { 0 };
	const json_t *container;
	int rc = json_is_array(json) ? -ENOENT : -EBADMSG;
	size_t i;

	json_array_foreach(json, i, container)
	{
		if (strcmp(bounded_json_string(container, "id"), id) != 0)
			continue;
		rc = read_podman(container, rules, &record);
		break;
	}
	if (rc)
		container_record_deinit(&record);
	else
		*ret_record = record;
	return rc;
}
