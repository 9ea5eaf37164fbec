// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/own_labels.h"

#include <limits.h>
#include <unistd.h>

#include "base/contract/label_names.h"

int own_labels(const struct labels *extra, const char *service, struct labels *ret_labels)
{
	char node[HOST_NAME_MAX + 1] = "";
	int rc = extra ? labels_copy(extra, ret_labels) : 0;

	if (!rc && !labels_get(ret_labels, LABEL_NODE) && gethostname(node, sizeof(node) - 1) == 0)
		rc = labels_set(ret_labels, LABEL_NODE, node);
	return rc ? rc : labels_set(ret_labels, LABEL_SERVICE, service);
}
