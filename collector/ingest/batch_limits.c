// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/batch_limits.h"

#include <stdio.h>
#include <string.h>

#include "base/contract/label_names.h"
#include "base/utf8.h"

static int remove_label(struct labels *labels, uint32_t at)
{
	char name[LABEL_NAME_BYTES_MAX + 1];

	snprintf(name, sizeof(name), "%s", labels->pairs[at].name);
	return labels_set(labels, name, "");
}

static int cut_value(struct labels *labels, uint32_t at, size_t bytes_max)
{
	const struct label *pair = &labels->pairs[at];
	char value[LABEL_VALUE_BYTES_MAX + 1];
	size_t size = utf8_cut(pair->value, strlen(pair->value), bytes_max);

	memcpy(value, pair->value, size);
	value[size] = '\0';
	return labels_set(labels, pair->name, value);
}

/** The label that is missed least: the last of those that cairn does not set, else the last. */
static uint32_t least_label(const struct labels *labels)
{
	for (uint32_t i = labels->count; i-- > 0;)
		if (!label_is_reserved(labels->pairs[i].name))
			return i;
	return labels->count - 1;
}

static int fit_labels(struct labels *labels, const struct tenant_values *values,
		      bool changed[TENANT_LIMITS])
{
	int rc = 0;

	for (uint32_t i = labels->count; i-- > 0 && !rc;) {
		if (strlen(labels->pairs[i].name) > values->of[LIMIT_LABEL_NAME]) {
			changed[LIMIT_LABEL_NAME] = true;
			rc = remove_label(labels, i);
		} else if (strlen(labels->pairs[i].value) > values->of[LIMIT_LABEL_VALUE]) {
			changed[LIMIT_LABEL_VALUE] = true;
			rc = cut_value(labels, i, values->of[LIMIT_LABEL_VALUE]);
		}
	}
	while (!rc && labels->count > values->of[LIMIT_LABELS]) {
		changed[LIMIT_LABELS] = true;
		rc = remove_label(labels, least_label(labels));
	}
	return rc;
}

static int fit_series(struct profile *profile, const struct tenant_values *values,
		      struct batch_limited *limited)
{
	for (uint32_t i = 0; i < profile->series_count; i++) {
		struct series *series = &profile->series[i];
		bool changed[TENANT_LIMITS] = { false }, is_changed = false;
		int rc = fit_labels(&series->labels, values, changed);

		if (rc)
			return rc;
		for (int limit = 0; limit < TENANT_LIMITS; limit++) {
			limited->count[limit] += changed[limit];
			is_changed |= changed[limit];
		}
		if (is_changed)
			series->id = series_id_of(&series->labels,
						  profile_string(profile, series->type));
	}
	return 0;
}

static struct id128 salted(struct id128 id, struct id128 salt)
{
	return (struct id128){ id.high ^ salt.high, id.low ^ salt.low };
}

/**
 * The leaf is first: the outer frames go. The store has one table of stacks for all tenants, so those that are cut alike have
 * ids of their own: all of them, because of some only the id comes.
 */
static void cut_stacks(struct profile *profile, uint64_t frames_max, struct batch_limited *limited)
{
	if (frames_max >= STACK_FRAMES_MAX)
		return;
	limited->stack_salt = id128_of(&frames_max, sizeof(frames_max));
	for (uint32_t i = 0; i < profile->stack_count; i++) {
		struct stack *stack = &profile->stacks[i];

		stack->id = salted(stack->id, limited->stack_salt);
		if (stack->location_count <= frames_max)
			continue;
		stack->location_count = (uint32_t)frames_max;
		stack->end = STACK_END_DEPTH;
		limited->count[LIMIT_STACK_DEPTH]++;
	}
}

int batch_limits_apply(struct tenant *tenant, struct profile *profile, struct store_batch_id *batch,
		       struct batch_limited *ret_limited, struct error *err)
{
	struct batch_limited limited = { 0 };
	struct tenant_values values;

	tenant_read_values(tenant, &values);
	// The default of series is the store's own.
	batch->tenant_series_max =
		values.line[LIMIT_SERIES] ? (uint32_t)values.of[LIMIT_SERIES] : 0;
	int rc = fit_series(profile, &values, &limited);
	if (rc)
		return error_set(err, rc, "labels: out of memory");
	cut_stacks(profile, values.of[LIMIT_STACK_DEPTH], &limited);
	*ret_limited = limited;
	return 0;
}

void batch_limits_restore_ids(const struct batch_limited *limited, struct id128 *ids,
			      uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ids[i] = salted(ids[i], limited->stack_salt);
}

void batch_limits_note(struct tenant *tenant, const struct batch_limited *limited, char *text,
		       size_t size)
{
	static const char *const changes[TENANT_LIMITS] = {
		[LIMIT_SERIES] = "rows of new series stored under the label other",
		[LIMIT_LABELS] = "series without some labels",
		[LIMIT_LABEL_NAME] = "series without labels of long names",
		[LIMIT_LABEL_VALUE] = "series with values cut",
		[LIMIT_STACK_DEPTH] = "stacks cut",
	};
	char words[TENANT_WORDS_BYTES];
	size_t at = 0;

	*text = '\0';
	for (int i = 0; i < TENANT_LIMITS; i++) {
		if (!limited->count[i])
			continue;
		tenant_count(tenant, (enum tenant_limit)i, limited->count[i]);
		tenant_limit_words(tenant, (enum tenant_limit)i, words);
		if (at < size)
			at += (size_t)snprintf(text + at, size - at, "%s%s: %s: %llu",
					       at ? "; " : "", words, changes[i],
					       (unsigned long long)limited->count[i]);
	}
}
