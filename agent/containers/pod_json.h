// SPDX-License-Identifier: Apache-2.0
// Pods out of the API server's JSON. The server passes on what users wrote: all of it is checked and bounded.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/containers/pod.h"
#include "agent/relabel/relabel_rules.h"

enum {
	POD_VERSION_BYTES_MAX = 64,    // a resource version has some ten digits
	POD_CONTINUE_BYTES_MAX = 4096, // a token for the next page of a list has some 300
	POD_META_KEYS_MAX = 512, // labels, and annotations, that relabel rules are asked about
};

/** The operator's choice. */
struct pod_selection {
	const char *label_patterns, *annotation_patterns; // that become labels, too; NULL: none
	const char *excluded_namespaces;                  // patterns; NULL: none
	const struct relabel_rules *rules;                // what they read is kept; NULL: none
};

enum { NODE_LABELS_MAX = 8 }; // chosen ones

enum pod_event_kind { POD_CHANGED, POD_DELETED, POD_BOOKMARK, POD_ERROR };

struct pod_event {
	enum pod_event_kind kind;
	char version[POD_VERSION_BYTES_MAX]; // to go on after it; "": none
	struct pod *pod;                     // of POD_CHANGED
	char uid[POD_UID_BYTES];             // of POD_DELETED
	long status;                         // of POD_ERROR
};

struct pod_list_metadata {
	char version[POD_VERSION_BYTES_MAX];
	char next_page[POD_CONTINUE_BYTES_MAX]; // "": this is the last one
};

/**
 * Each returns 0; -EBADMSG: not what it should be, or too much of it; -ENOMEM. An event of a
 * pod that is none still has its version.
 */
int pod_json_read(const char *text, size_t size, const struct pod_selection *selection,
		  struct pod **ret_pod);
int pod_json_read_event(const char *text, size_t size, const struct pod_selection *selection,
			struct pod_event *ret_event);
/**
 * The labels of a Node that match @patterns: those of zone, region, instance type and GPU under short names, others as chosen
 * labels of pods. @ret_labels must be empty.
 */
int pod_json_read_node(const char *text, size_t size, const char *patterns,
		       struct labels *ret_labels);
int pod_json_read_metadata(const char *text, size_t size, struct pod_list_metadata *ret_metadata);
