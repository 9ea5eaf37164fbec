// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of relabel rules, up to a NUL, and then as values of labels: the owner of a series stays, no label of
// cairn's own comes from a rule, and the number of labels is bounded.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/relabel/relabel_file.h"
#include "base/contract/label_names.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static struct relabel_rules *read_rules(const void *text, size_t size)
{
	struct relabel_rules *rules = NULL;
	struct error err = { 0 };
	char path[64];
	int fd = memfd_create("rules", 0);

	check(fd >= 0 && write(fd, text, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = relabel_file_read(path, &rules, &err);
	check(!rc == (rules != NULL) && (rc == 0 || err.text[0]));
	close(fd);
	return rules;
}

static void fill(struct labels *labels, struct meta_labels *meta, const char *values,
		 const char *end)
{
	static const char *const names[] = { "a", "b", "c", LABEL_VERSION, LABEL_POD };

	for (size_t i = 0; values < end; i++) {
		if (i < sizeof(names) / sizeof(*names))
			check(labels_set(labels, names[i], values) == 0);
		check(meta_labels_add(meta, "__meta_", values, values) == 0);
		check(meta_labels_add(meta, "__meta_b", "", values) == 0);
		values += strlen(values) + 1;
	}
	check(labels_set(labels, LABEL_SERVICE, "web") == 0);
	check(labels_set(labels, LABEL_NODE, "n1") == 0);
	check(labels_set(labels, LABEL_PROCESS, "p") == 0);
}

static void check_result(const struct labels *labels, const struct labels *result)
{
	const char *pod = labels_get(result, LABEL_POD);

	check(result->count <= LABELS_MAX);
	check(strcmp(labels_get(result, LABEL_NODE), "n1") == 0);
	check(strcmp(labels_get(result, LABEL_PROCESS), "p") == 0);
	check(labels_get(result, LABEL_SERVICE)[0]);
	check(!labels_get(result, LABEL_TENANT) && !labels_get(result, LABEL_POD_UID));
	check(!pod || strcmp(pod, labels_get(labels, LABEL_POD)) == 0);
	for (uint32_t i = 0; i < result->count; i++) {
		const struct label *label = &result->pairs[i];

		check(strncmp(label->name, "__", 2) != 0);
		check(utf8_is_valid(label->value, strlen(label->value)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *end = memchr(bytes, '\0', size);
	size_t rules_size = end ? (size_t)(end - bytes) : size;
	struct relabel_rules *rules = read_rules(bytes, rules_size);
	struct labels labels = { 0 }, result = { 0 };
	struct relabel_stats stats = { 0 };
	struct meta_labels meta = { 0 };
	bool is_dropped;

	if (!rules)
		return 0;
	size_t left = end ? size - rules_size - 1 : 0;
	char *values = calloc(1, left + 1);

	check(values);
	if (left)
		memcpy(values, end + 1, left);
	fill(&labels, &meta, values, values + left);
	check(relabel_rules_apply(rules, &labels, &meta, &result, &is_dropped, &stats) == 0);
	check_result(&labels, &result);
	labels_deinit(&labels);
	labels_deinit(&result);
	meta_labels_deinit(&meta);
	relabel_rules_free(rules);
	free(values);
	return 0;
}
