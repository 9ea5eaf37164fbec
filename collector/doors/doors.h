// SPDX-License-Identifier: Apache-2.0
// What other profilers push: a body becomes a batch in the store, under the rules of agents' batches. The tenant is the
// credential's, a body counts once however often it is sent, and the answer comes when the batch is on disk.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_budget.h"
#include "base/error.h"
#include "base/import/importer.h"
#include "collector/access/identity.h"
#include "collector/ingest/batch_limits.h"
#include "collector/metrics/metrics.h"
#include "collector/store/store.h"

enum {
	DOOR_BYTES_MAX = 64 << 20, // of a body, compressed and inflated: OTLP's recommended limit
	// Memory of reading and storing a body, per inflated byte: rows are what costs most.
	DOOR_WORK_PER_BYTE = 24,
	DOOR_WORK_BYTES_MIN = 1 << 20,
	DOOR_ROW_BYTES = 160,   // of a row on its way into the store
	DOOR_WORDS_BYTES = 800, // about what was refused or changed
};

/** Everything is borrowed. */
struct doors {
	struct store *store;
	struct metrics *metrics;
	struct byte_budget *budget;   // for inflated bodies and for work; NULL: no limit
	struct tenant_limits *limits; // NULL: none
	_Atomic uint64_t
		logged_ns; // monotonic: of the last log line about a failing store; 0: never
};

/** Who sent a body, and the body. */
struct door_request {
	const struct identity *identity;
	const char *address; // of the peer, without its port
	const void *bytes;   // never NULL
	size_t size;
	const char *content_type; // or NULL
	/** A parameter of the URL; "" if it is absent. NULL: there are none. */
	const char *(*parameter)(const void *context, const char *name);
	/** Call @read with each of them. */
	void (*each_parameter)(const void *context,
			       void (*read)(void *reading, const char *name, const char *value),
			       void *reading);
	const void *context;
};

/** What became of it. */
struct door_outcome {
	uint64_t samples; // as its source counts them
	uint64_t rows;    // of series, time and stack
	uint64_t cut_stacks;
	uint64_t left_out; // samples whose labels were left out
	uint64_t late, future,
		series;  // rows refused: outside of the range, too many series
	uint64_t other;  // rows stored in a series of the excess
	uint64_t tenant; // of which the tenant's limit was the reason
	struct time_range accepted, stored;
	bool duplicate;
	char limited[DOOR_WORDS_BYTES / 2]; // what limits of the tenant changed; "": nothing
};

/** A body on its way: what it needs while it is read. */
struct door_work {
	struct doors *doors;
	struct tenant *tenant; // NULL: none is limited
	struct importer importer;
	struct buffer inflated;
	const void *bytes; // of the body, inflated
	size_t size;
	size_t taken; // from the budget
};

/** The tenant of @identity, whose limits its pushes have; NULL: none. */
struct tenant *doors_tenant(struct doors *doors, const struct identity *identity);

/**
 * Begin with @bytes of @identity, inflated if they are gzip, and take memory for the work. Returns 0; TENANT_LATER (the tenant's rate
 * is used up); -EBADMSG; -EFBIG; -EDQUOT (the memory is taken by others); -ENOMEM.
 */
int door_work_begin(struct door_work *work, struct doors *doors, const struct identity *identity,
		    const void *bytes, size_t size, struct error *err);
/** Again for another part of the body, of which the importer's profile is kept. */
int door_work_next(struct door_work *work, const void *bytes, size_t size, struct error *err);
void door_work_end(struct door_work *work);

/**
 * Store what was imported. @salt: what else the body means, such as its URL's parameters. Returns 0 with
 * @ret_outcome; -ERANGE with @err if all of it lies outside of the accepted range; otherwise as store_append().
 */
int door_store(struct door_work *work, const struct door_request *request, const char *salt,
	       struct door_outcome *ret_outcome, struct error *err);

/** The same for a batch that has an id of its own. */
int door_store_as(struct door_work *work, const struct door_request *request,
		  const struct store_batch_id *batch, struct door_outcome *ret_outcome,
		  struct error *err);

/** Count a push that failed with @err, and log it if it is the store that fails. */
void doors_count_failure(struct doors *doors, const struct error *err);

/** What was refused or left out, in a sentence; "" if nothing was. */
void door_outcome_words(const struct door_outcome *outcome, char *text, size_t size);

const char *door_parameter(const struct door_request *request, const char *name);
