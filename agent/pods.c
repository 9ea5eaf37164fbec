// SPDX-License-Identifier: Apache-2.0
#include "agent/pods.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { SERVER_BYTES = 256, PATH_BYTES = 4096 };

/* The kubelet gives these variables to each container. "": this is none. */
static void find_server(char ret_server[SERVER_BYTES])
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	bool is_ipv6 = host && strchr(host, ':');

	ret_server[0] = '\0';
	if (host && host[0])
		snprintf(ret_server, SERVER_BYTES, "https://%s%s%s:%s", is_ipv6 ? "[" : "", host,
			 is_ipv6 ? "]" : "", port && port[0] ? port : "443");
}

/* What an agent that runs in a pod lacks; NULL: nothing. */
static const char *find_lack(const struct options *options)
{
	char token[PATH_BYTES];

	snprintf(token, sizeof(token), "%s/token", options->kubernetes_credentials);
	if (!options->node || !options->node[0])
		return "the node's name is unknown; set the variable NODE_NAME to the field "
		       "spec.nodeName";
	if (access(token, R_OK))
		return "there is no service account's token; set automountServiceAccountToken";
	return NULL;
}

static int open_watch(const struct options *options, const char *server,
		      const struct relabel_rules *rules, struct event_log *events,
		      struct pods *pods, struct error *err)
{
	const struct pod_watch_options watch = {
		.server = server,
		.kubelet = options->kubelet,
		.node = options->node ? options->node : "",
		.credentials = options->kubernetes_credentials,
		.selection = {
			.label_patterns = options->pod_labels,
			.annotation_patterns = options->pod_annotations,
			.excluded_namespaces = options->excluded_namespaces,
			.rules = rules,
		},
		.node_labels = options->node_labels,
		.table = pods->table,
		.events = events,
	};
	struct error cause = { 0 };
	int rc = pod_watch_start(&watch, &pods->watch, &cause);

	return rc ? error_set(err, rc, "--kubernetes: %s", cause.text) : 0;
}

int pods_open(const struct options *options, const struct relabel_rules *rules,
	      struct event_log *events, struct pods *ret_pods, struct error *err)
{
	bool is_auto = strcmp(options->kubernetes, "auto") == 0;
	char server[SERVER_BYTES];
	struct pods pods = { 0 };

	if (is_auto)
		find_server(server);
	else
		snprintf(server, sizeof(server), "%s", options->kubernetes);
	if (strcmp(server, "none") == 0 || !server[0])
		return 0;
	const char *lack = is_auto ? find_lack(options) : NULL;
	if (lack) {
		event_warn(events, "kubernetes", "processes have no labels of their pods: %s",
			   lack);
		return 0;
	}
	pods.table = pod_table_new();
	if (pods.table && options->node_labels)
		pod_table_await_node(pods.table);
	int rc = pods.table ? open_watch(options, server, rules, events, &pods, err)
			    : error_set(err, -ENOMEM, "out of memory");
	if (rc)
		pods_close(&pods);
	else
		*ret_pods = pods;
	return rc;
}

void pods_close(struct pods *pods)
{
	pod_watch_free(pods->watch);
	pod_table_free(pods->table);
	*pods = (struct pods){ 0 };
}
