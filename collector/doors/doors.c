// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/doors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/import/inflated.h"
#include "base/log.h"
#include "base/utc_text.h"
#include "collector/ingest/ingest_identity.h"

#define LOG_NS    (60 * NS_PER_SECOND) // between log lines about a failing store
#define PUSH_SALT "cairn push"         // batches of doors are never those of an agent

// ---- memory -----------------------------------------------------------------------------------

static int take_memory(struct door_work *work, size_t bytes, struct error *err)
{
	struct byte_budget *budget = work->doors->budget;

	if (budget && bytes > budget->bytes_max)
		return error_set(
			err, -EFBIG,
			"body: needs %zu MiB of memory, more than the %zu MiB for messages; "
			"push less at once, or raise --memory",
			bytes >> 20, budget->bytes_max >> 20);
	if (!byte_budget_take(budget, bytes))
		return error_set(err, -EDQUOT,
				 "body: the memory for messages is in use; try again");
	work->taken += bytes;
	return 0;
}

/** Memory for the work on @size bytes, and for the rows that come of it. */
static int take_work(struct door_work *work, size_t size, struct error *err)
{
	int rc = take_memory(work, size, err);

	if (!rc)
		work->importer.rows_max += size / DOOR_ROW_BYTES;
	return rc;
}

int door_work_next(struct door_work *work, const void *bytes, size_t size, struct error *err)
{
	int rc = 0;

	work->bytes = bytes;
	work->size = size;
	if (is_gzip(bytes, size)) {
		buffer_deinit(&work->inflated);
		rc = inflate_bytes(bytes, size, &work->inflated, err);
		tenant_charge_ingest(work->tenant, work->inflated.size);
		work->bytes = work->inflated.bytes;
		work->size = work->inflated.size;
	}
	if (!rc && work->size > DOOR_BYTES_MAX)
		rc = error_set(err, -EFBIG, "body: larger than %d MiB", DOOR_BYTES_MAX >> 20);
	return rc ? rc : take_work(work, work->size * DOOR_WORK_PER_BYTE, err);
}

struct tenant *doors_tenant(struct doors *doors, const struct identity *identity)
{
	return tenant_limits_find(doors->limits, ingest_tenant(identity));
}

/** What comes compressed is charged once it is inflated. */
static int take_rate(struct tenant *tenant, const void *bytes, size_t size, struct error *err)
{
	return tenant_take_ingest(tenant, is_gzip(bytes, size) ? 0 : size, clock_monotonic_ns(),
				  err);
}

int door_work_begin(struct door_work *work, struct doors *doors, const struct identity *identity,
		    const void *bytes, size_t size, struct error *err)
{
	*work = (struct door_work){
		.doors = doors,
		.tenant = doors_tenant(doors, identity),
		.inflated = { .size_max = DOOR_BYTES_MAX, .budget = doors->budget },
	};
	metrics_add(doors->metrics, METRIC_PUSH_BYTES, size);
	if (importer_init(&work->importer, clock_realtime_ns(), 0))
		return error_set(err, -ENOMEM, "out of memory");
	int rc = take_rate(work->tenant, bytes, size, err);
	if (!rc)
		rc = take_work(work, DOOR_WORK_BYTES_MIN, err);
	return rc ? rc : door_work_next(work, bytes, size, err);
}

void door_work_end(struct door_work *work)
{
	importer_deinit(&work->importer);
	buffer_deinit(&work->inflated);
	byte_budget_give(work->doors->budget, work->taken);
}

// ---- the batch --------------------------------------------------------------------------------

/** A body that is sent again by the same peer is the same batch. */
static struct id128 batch_id_of(const struct door_request *request, const char *salt)
{
	const struct id128 parts[] = {
		id128_of(request->bytes, request->size),
		id128_of(salt, strlen(salt)),
		id128_of(request->address, strlen(request->address)),
	};

	return id128_of(parts, sizeof(parts));
}

static int check_range(const struct store_append_result *result, uint64_t rows, struct error *err)
{
	char from[UTC_TEXT_BYTES], to[UTC_TEXT_BYTES];

	if (!rows || result->rows_late + result->rows_future < rows)
		return 0;
	utc_text(result->accepted.from_ns / NS_PER_SECOND, from);
	utc_text(result->accepted.to_ns / NS_PER_SECOND, to);
	return error_set(err, -ERANGE,
			 "all samples lie outside of the accepted range, %s to %s (--retention); "
			 "nothing was stored",
			 from, to);
}

static int append(struct door_work *work, const struct store_batch_id *id,
		  struct door_outcome *outcome, struct error *err)
{
	const struct profile *profile = work->importer.profile;
	struct store_append_result result = { 0 };
	int rc = store_append(work->doors->store, id, profile, &result, err);

	free(result.unknown_stacks);
	if (!rc && result.unknown_stack_count)
		rc = error_set(err, -EBADMSG, "stacks: %u are not defined",
			       result.unknown_stack_count);
	if (!rc)
		rc = check_range(&result, profile->sample_count, err);
	outcome->late = result.rows_late;
	outcome->future = result.rows_future;
	outcome->series = result.rows_series;
	outcome->other = result.rows_other;
	outcome->tenant = result.rows_tenant;
	outcome->accepted = result.accepted;
	outcome->duplicate = result.duplicate;
	return rc;
}

static void count(struct metrics *metrics, int rc, const struct door_outcome *outcome)
{
	uint64_t refused = outcome->late + outcome->future + outcome->series;

	if (rc == -ERANGE || (!rc && refused))
		metrics_add(metrics, METRIC_PUSH_ROWS_REFUSED, refused);
	if (rc)
		return;
	if (outcome->duplicate) {
		metrics_add(metrics, METRIC_PUSH_DUPLICATES, 1);
		return;
	}
	metrics_add(metrics, METRIC_PUSH_BATCHES, 1);
	metrics_add(metrics, METRIC_PUSH_SAMPLES, outcome->samples);
}

int door_store_as(struct door_work *work, const struct door_request *request,
		  const struct store_batch_id *batch, struct door_outcome *ret_outcome,
		  struct error *err)
{
	struct importer *importer = &work->importer;
	struct profile *profile = importer->profile;
	struct store_batch_id id = *batch;
	struct door_outcome outcome = { .samples = importer->samples,
					.cut_stacks = importer->cut_stacks,
					.left_out = importer->left_out,
					.stored = { profile->from_ns, profile->to_ns } };

	profile_sort_samples(profile);
	outcome.rows = profile->sample_count;
	if (!outcome.rows) { // an exporter's way to ask whether it may
		*ret_outcome = outcome;
		return 0;
	}
	struct batch_limited limited = { 0 };
	int rc = batch_limits_apply(work->tenant, profile, &id, &limited, err);
	if (!rc)
		rc = ingest_identity_apply(request->identity, request->address, profile, &id, err);
	if (rc)
		return rc;
	// They have a place of their own in the table of what was acknowledged: pushes never evict an agent.
	const struct id128 parts[] = { id.identity, id128_of(PUSH_SALT, strlen(PUSH_SALT)) };
	id.identity = id128_of(parts, sizeof(parts));
	// A file of last week says nothing about whose clock is right.
	profile->from_ns = profile->to_ns = 0;
	rc = append(work, &id, &outcome, err);
	count(work->doors->metrics, rc, &outcome);
	if (rc)
		return rc;
	limited.count[LIMIT_SERIES] = outcome.tenant;
	if (!outcome.duplicate)
		batch_limits_note(work->tenant, &limited, outcome.limited, sizeof(outcome.limited));
	*ret_outcome = outcome;
	return 0;
}

int door_store(struct door_work *work, const struct door_request *request, const char *salt,
	       struct door_outcome *ret_outcome, struct error *err)
{
	const struct id128 id = batch_id_of(request, salt);
	const struct store_batch_id batch = { .agent = id, .boot = id, .sequence = 1 };

	return door_store_as(work, request, &batch, ret_outcome, err);
}

void doors_count_failure(struct doors *doors, const struct error *err)
{
	uint64_t now_ns = clock_monotonic_ns(), logged_ns = atomic_load(&doors->logged_ns);

	switch (err->code) {
	case -EBADMSG:
	case -EINVAL:
	case -ENOTSUP:
	case -E2BIG:
	case -EFBIG:
	case -ERANGE:
		metrics_add(doors->metrics, METRIC_PUSH_REFUSED, 1);
		return;
	case -EDQUOT:
		metrics_add(doors->metrics, METRIC_PUSH_MEMORY_FULL, 1);
		return;
	case TENANT_LATER: // counted by tenant
		return;
	default:
		metrics_add(doors->metrics, METRIC_PUSH_ERRORS, 1);
	}
	if (logged_ns && ns_between(logged_ns, now_ns) < LOG_NS)
		return;
	// Of several threads one logs.
	if (atomic_compare_exchange_strong(&doors->logged_ns, &logged_ns, now_ns))
		log_error("push: not stored: %s; clients got an error and may push again",
			  err->text);
}

void door_outcome_words(const struct door_outcome *outcome, char *text, size_t size)
{
	char from[UTC_TEXT_BYTES], to[UTC_TEXT_BYTES];
	size_t at = 0;

	*text = '\0';
	if (outcome->late + outcome->future) {
		utc_text(outcome->accepted.from_ns / NS_PER_SECOND, from);
		utc_text(outcome->accepted.to_ns / NS_PER_SECOND, to);
		at += (size_t)snprintf(text, size,
				       "%llu of %llu rows were refused: outside of the accepted "
				       "range, %s to %s",
				       (unsigned long long)(outcome->late + outcome->future),
				       (unsigned long long)outcome->rows, from, to);
	}
	if (outcome->series && at < size)
		at += (size_t)snprintf(text + at, size - at,
				       "%s%llu rows were refused: too many series in this hour",
				       at ? "; " : "", (unsigned long long)outcome->series);
	if (outcome->other && at < size)
		at += (size_t)snprintf(text + at, size - at,
				       "%s%llu rows are in a series with the label other: a quota "
				       "of series is reached",
				       at ? "; " : "", (unsigned long long)outcome->other);
	if (outcome->left_out && at < size)
		at += (size_t)snprintf(text + at, size - at,
				       "%s%llu samples are without their labels: more than %d "
				       "series in one profile",
				       at ? "; " : "", (unsigned long long)outcome->left_out,
				       IMPORT_SERIES_MAX);
	if (outcome->cut_stacks && at < size)
		at += (size_t)snprintf(text + at, size - at, "%s%llu stacks were cut at %d frames",
				       at ? "; " : "", (unsigned long long)outcome->cut_stacks,
				       STACK_FRAMES_MAX);
	if (*outcome->limited && at < size)
		snprintf(text + at, size - at, "%s%s", at ? "; " : "", outcome->limited);
}

const char *door_parameter(const struct door_request *request, const char *name)
{
	return request->parameter ? request->parameter(request->context, name) : "";
}
