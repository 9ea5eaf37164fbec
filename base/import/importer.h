// SPDX-License-Identifier: Apache-2.0
// What the formats of other profilers are read into: a profile with slots of 20 ms. A value that covers a
// time is spread evenly over its slots; what it adds up to never changes. Everything read is hostile: the
// limits of base/profile hold, and the rows of one import are bounded.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/contract/profile_type.h"
#include "base/error.h"
#include "base/labels.h"
#include "base/profile/profile.h"

enum {
	IMPORT_MINUTES_MAX = 60,  // that one profile may cover: a row lies in one minute
	IMPORT_TYPES_MAX = 32,    // sample types of one profile
	IMPORT_SERIES_MAX = 4096, // of one profile: labels of more samples are left out
};

#define IMPORT_SLOT_NS   (20 * NS_PER_MS)
#define IMPORT_NS_MAX    (IMPORT_MINUTES_MAX * 60 * NS_PER_SECOND)
#define IMPORT_VALUE_MAX ((int64_t)1 << 53) // as EXPORT_VALUE_MAX: exact as a double
#define IMPORT_SERVICE   "unknown_service"  // OpenTelemetry's name for a service that has none

struct importer {
	struct profile *profile;
	uint64_t now_ns;     // Unix time: of what has no time of its own
	uint64_t rows_max;   // of the profile
	uint64_t samples;    // that were read, as their source counts them
	uint64_t cut_stacks; // that had more than STACK_FRAMES_MAX frames
	uint64_t left_out;   // samples whose labels were left out, at IMPORT_SERIES_MAX
};

/** Returns 0 or -ENOMEM. */
int importer_init(struct importer *importer, uint64_t now_ns, uint64_t rows_max);
void importer_deinit(struct importer *importer);

/** Fill @err with what base/profile refused: @rc of what it is about. Returns @rc. */
int import_failed(int rc, struct error *err, const char *where);

/** The number of @text (@size bytes, cut at STRING_BYTES_MAX). Returns 0, -ENOMEM or -E2BIG. */
int import_string(struct importer *importer, const char *text, size_t size, uint32_t *ret_number);

/**
 * Add a frame. Its identity is that of its lines and its module, wherever the code was loaded; without lines that of its build id
 * (or module) and its offset, so that it gets names later. Returns 0, -ENOMEM or -E2BIG.
 */
int import_frame(struct importer *importer, const struct location *frame, const struct line *lines,
		 uint32_t line_count, uint32_t *ret_location);

/** Add a frame that has a name and perhaps a file and a line: "name (file.py:12)" is Python's, "name_[k]" the kernel's. */
int import_named_frame(struct importer *importer, const char *name, size_t size,
		       uint32_t *ret_location);

/** Add a stack, leaf first. Of one with more than STACK_FRAMES_MAX frames the innermost stay. */
int import_stack(struct importer *importer, const uint32_t *locations, size_t count,
		 uint32_t *ret_stack);

/** A time, cut where minutes end. */
struct import_time {
	uint64_t from_ns, to_ns;
	uint64_t slot_count;
	uint32_t part_count;
	struct {
		uint64_t slot;
		uint32_t slot_count;
	} parts[IMPORT_MINUTES_MAX + 1];
};

/**
 * The slots of [@from_ns, @to_ns); of the one of @from_ns if the time is empty. Returns 0, or -EINVAL with @err if it is longer than
 * IMPORT_NS_MAX or absurd.
 */
int import_time_set(struct import_time *time, uint64_t from_ns, uint64_t to_ns, struct error *err);

/**
 * Add @value, spread over @time. Returns 0; -EINVAL if the value is too large; -E2BIG at the limit of rows; -ENOMEM. @err says
 * which.
 */
int import_row(struct importer *importer, uint32_t series, uint32_t stack,
	       const struct import_time *time, int64_t value, struct error *err);

/** The same for [@from_ns, @to_ns), however long that is. */
int import_interval(struct importer *importer, uint32_t series, uint32_t stack, uint64_t from_ns,
		    uint64_t to_ns, int64_t value, struct error *err);

/** The profile's time covers @time, too. */
void import_cover(struct importer *importer, const struct import_time *time);

/** What a profile does not say of itself. */
struct import_source {
	const struct labels *labels; // of all series
	const char *name; // of the profile: "process_cpu", "memory"; NULL: by its sample types
	const char *type; // in five parts, for all values; NULL: by their sample types
	uint64_t from_ns, to_ns; // 0: as the profile says, or now
	uint64_t end_ns;         // when it ended, if only that is known; 0: now
	int64_t value_scale;     // each value is so many of the type's unit; 0: 1
};

/** The type of a value, in five parts, and how it is stored. */
struct import_type {
	char text[PROFILE_TYPE_BYTES];
	bool is_gauge; // a level: its value holds for each second of its time
};

/**
 * The type of values of @sample_type and @unit, of a profile with the period @period_type and @period_unit ("": none). Heap in
 * use and goroutines are levels: memory:inuse_space:bytes:gauge:second.
 */
void import_type_make(const struct import_source *source, const char *sample_type, const char *unit,
		      const char *period_type, const char *period_unit,
		      struct import_type *ret_type);

/** The value of a level for its whole time: once for each second, at least for one. -ERANGE if too large. */
int import_gauge_value(const struct import_time *time, int64_t value, int64_t *ret_value);

/** Set a label of somebody else's name: characters that a name cannot have become '_'. True if it was set. */
bool import_label(struct labels *labels, const char *name, size_t name_size, const char *value,
		  size_t value_size);

/** Labels that every series has: `service`, and `process`, the root of flame graphs, which is the service if it is not known. -ENOMEM. */
int import_finish_labels(struct labels *labels);
