// SPDX-License-Identifier: Apache-2.0
// What Docker and Podman write down of a container: its name, image and labels. Root writes these files; the names in them are
// anybody's who may start a container, or publish an image.
#pragma once

#include <stddef.h>

#include "agent/containers/image_version.h"
#include "agent/relabel/meta_labels.h"
#include "agent/relabel/relabel_rules.h"

enum {
	CONTAINER_NAME_BYTES = 256,
	CONTAINER_LABELS_MAX = 512, // that relabel rules are asked about
};

/** Texts are clean to be a label's value; "" where it says nothing. */
struct container_record {
	char name[CONTAINER_NAME_BYTES];
	char service[CONTAINER_NAME_BYTES]; // Compose's, else the name
	char project[CONTAINER_NAME_BYTES]; // Compose's
	char version[IMAGE_VERSION_BYTES];
	struct meta_labels meta; // that relabel rules read
};

void container_record_deinit(struct container_record *record);

/**
 * Docker's config.v2.json of one container (moby, container/container.go), or Podman's containers.json of all
 * (containers/storage, containers.go), of which @id counts. @rules may be NULL. Returns 0; -ENOENT: @id is not in it;
 * -EBADMSG: not what it should be, or too much of it; -ENOMEM.
 */
int container_record_read_docker(const char *text, size_t size, const char *id,
				 const struct relabel_rules *rules,
				 struct container_record *ret_record);
int container_record_read_podman(const char *text, size_t size, const char *id,
				 const struct relabel_rules *rules,
				 struct container_record *ret_record);
