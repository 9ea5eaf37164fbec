// SPDX-License-Identifier: Apache-2.0
#include "cli/push_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/import/import_file.h"
#include "base/import/inflated.h"
#include "base/text.h"
#include "cli/api_error.h"
#include "cli/api_request.h"
#include "proto/export_message.h"

enum {
	FILE_BYTES_MAX = 1 << 30, // inflated: it is read into memory
	STEP_BYTES = 1 << 20,
	ROWS_MAX = 1 << 24,          // of a file: half a GiB of memory
	BATCH_ROWS_MAX = 100 * 1000, // about a MiB, which every collector has memory for
	STEM_BYTES = 128,            // of a service's name
};

#define HOUR_NS (3600 * NS_PER_SECOND)

/** A file on its way. */
struct pushing {
	const struct push_options *options;
	const char *path;
	struct buffer file, inflated;
	const void *bytes; // inflated
	size_t size;
	uint64_t written_ns; // when the file was
	struct labels labels;
	struct importer importer;
	struct batch_id batch;
	struct push_result result;
	uint32_t batches, duplicates;
	struct error *err;
};

static void pushing_deinit(struct pushing *pushing)
{
	importer_deinit(&pushing->importer);
	labels_deinit(&pushing->labels);
	buffer_deinit(&pushing->file);
	buffer_deinit(&pushing->inflated);
}

// ---- the file ---------------------------------------------------------------------------------

static int read_all(struct pushing *pushing, int fd)
{
	for (;;) {
		uint8_t *room = buffer_extend(&pushing->file, STEP_BYTES);
		if (!room)
			return error_set(pushing->err, pushing->file.rc,
					 pushing->file.rc == -EFBIG
						 ? "larger than 1 GiB: push it in parts"
						 : "out of memory");
		ssize_t count = read(fd, room, STEP_BYTES);

		pushing->file.size -= STEP_BYTES - (count > 0 ? (size_t)count : 0);
		if (count < 0 && errno != EINTR)
			return error_errno(pushing->err, -errno, "cannot be read");
		if (count == 0)
			return 0;
	}
}

static int read_file(struct pushing *pushing)
{
	bool is_input = strcmp(pushing->path, "-") == 0;
	_cleanup_close_ int fd =
		is_input ? dup(STDIN_FILENO) : open(pushing->path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	pushing->file.size_max = pushing->inflated.size_max = FILE_BYTES_MAX;
	if (fd < 0 || fstat(fd, &status))
		return error_errno(pushing->err, -errno, "cannot be read");
	pushing->written_ns = clock_realtime_ns();
	if (S_ISREG(status.st_mode))
		pushing->written_ns = (uint64_t)status.st_mtim.tv_sec * NS_PER_SECOND +
				      (uint64_t)status.st_mtim.tv_nsec;
	int rc = read_all(pushing, fd);
	if (rc)
		return rc;
	pushing->bytes = pushing->file.bytes;
	pushing->size = pushing->file.size;
	if (is_gzip(pushing->bytes, pushing->size)) {
		rc = inflate_bytes(pushing->bytes, pushing->size, &pushing->inflated, pushing->err);
		pushing->bytes = pushing->inflated.bytes;
		pushing->size = pushing->inflated.size;
	}
	return !rc && !pushing->size ? error_set(pushing->err, -EINVAL, "empty") : rc;
}

/** "/tmp/shop.cpu.pb.gz" is shop. */
static void stem_of(const char *path, char stem[STEM_BYTES])
{
	const char *name = path_base_name(path);

	snprintf(stem, STEM_BYTES, "%.*s", (int)strcspn(name, "."), name);
	if (!*stem || strcmp(path, "-") == 0)
		snprintf(stem, STEM_BYTES, "%s", IMPORT_SERVICE);
}

static int make_labels(struct pushing *pushing)
{
	const struct push_options *options = pushing->options;
	char stem[STEM_BYTES];
	int rc = labels_copy(options->labels, &pushing->labels);

	stem_of(pushing->path, stem);
	if (!rc && (options->service || !labels_get(&pushing->labels, LABEL_SERVICE)))
		rc = labels_set(&pushing->labels, LABEL_SERVICE,
				options->service ? options->service : stem);
	if (!rc)
		rc = import_finish_labels(&pushing->labels);
	return rc ? error_errno(pushing->err, rc, "labels") : 0;
}

static int import(struct pushing *pushing)
{
	const struct push_options *options = pushing->options;
	enum import_format format;
	const struct import_source source = { .labels = &pushing->labels,
					      .type = options->type,
					      .from_ns = options->at_ns,
					      .end_ns = pushing->written_ns };

	if (importer_init(&pushing->importer, clock_realtime_ns(), ROWS_MAX))
		return error_set(pushing->err, -ENOMEM, "out of memory");
	int rc = import_format_of(pushing->bytes, pushing->size, &format, pushing->err);
	if (rc)
		return rc;
	rc = import_file(&pushing->importer, &source, format, options->hz, pushing->bytes,
			 pushing->size, pushing->err);
	if (rc)
		return rc;
	if (!pushing->importer.profile->sample_count)
		return error_set(pushing->err, -EINVAL, "%s: no samples",
				 import_format_name(format));
	profile_sort_samples(pushing->importer.profile);
	pushing->result.format = import_format_name(format);
	return 0;
}

static uint32_t count_types(const struct profile *profile)
{
	uint32_t seen[PUSH_TYPES_MAX], count = 0;

	for (uint32_t i = 0; i < profile->series_count; i++) {
		uint32_t at = 0;

		while (at < count && seen[at] != profile->series[i].type)
			at++;
		if (at == count && count < PUSH_TYPES_MAX)
			seen[count++] = profile->series[i].type;
	}
	return count;
}

// ---- the batches ------------------------------------------------------------------------------

/** The same file with the same labels, type and time is the same batch: it counts once. */
static void identify(struct pushing *pushing)
{
	const struct push_options *options = pushing->options;
	const char *type = options->type ? options->type : "";
	const struct id128 parts[] = {
		id128_of(pushing->bytes, pushing->size),
		labels_id(&pushing->labels),
		id128_of(type, strlen(type)),
		{ options->at_ns ? options->at_ns : pushing->written_ns, options->hz },
	};

	pushing->batch.agent = pushing->batch.boot = id128_of(parts, sizeof(parts));
	snprintf(pushing->batch.agent_version, sizeof(pushing->batch.agent_version), "push");
}

static bool define_all(void *context, const struct profile *profile, const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

static int read_answer(struct pushing *pushing, const struct http_response *response)
{
	struct push_result *result = &pushing->result;
	json_t *answer =
		json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);

	if (!answer)
		return error_set(pushing->err, -EPROTO, "the collector's answer is no JSON");
	if (*json_text_of(answer, "note"))
		json_word_of(answer, "note", result->note, sizeof(result->note));
	result->refused += (uint64_t)json_integer_value(json_object_get(answer, "refused"));
	pushing->duplicates += json_is_true(json_object_get(answer, "duplicate"));
	pushing->batches++;
	json_decref(answer);
	return 0;
}

static int send_batch(struct pushing *pushing, const struct buffer *message)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	const char *collector = pushing->options->collector_http;
	size_t length = strlen(collector);
	struct error cause = { 0 };

	while (length && collector[length - 1] == '/')
		length--;
	buffer_append(&url, collector, length);
	buffer_append_string(&url, "/api/v1/batches");
	const struct http_request request = { .url = buffer_string(&url),
					      .security = pushing->options->security,
					      .timeout_ms = pushing->options->timeout_ms };
	int rc = http_post_body(&request, "application/x-protobuf", message->bytes, message->size,
				&response, &cause);
	if (rc)
		return api_error_no_answer(collector, rc, &cause, pushing->err);
	return response.status == 200 ? read_answer(pushing, &response)
				      : api_error_read(&response, pushing->err);
}

/** Send @count samples of one hour. */
static int push_samples(struct pushing *pushing, struct sample *samples, uint32_t count,
			uint64_t hour)
{
	_cleanup_(buffer_deinit) struct buffer message = { 0 };
	struct profile part = *pushing->importer.profile;

	part.samples = samples;
	part.sample_count = count;
	part.from_ns = hour * HOUR_NS;
	part.to_ns = part.from_ns + HOUR_NS;
	pushing->batch.sequence++;
	int rc = export_request_encode(&pushing->batch, &part, define_all, NULL, &message,
				       pushing->err);
	return rc ? rc : send_batch(pushing, &message);
}

static uint64_t hour_of(const struct sample *sample)
{
	return sample->slot * IMPORT_SLOT_NS / HOUR_NS;
}

/** Move the samples of @hour to @ret_samples. Returns how many. */
static uint32_t take_hour(const struct profile *profile, uint64_t hour, struct sample *ret_samples,
			  uint64_t *ret_next_hour)
{
	uint32_t count = 0;

	*ret_next_hour = UINT64_MAX;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		uint64_t of_sample = hour_of(&profile->samples[i]);

		if (of_sample == hour)
			ret_samples[count++] = profile->samples[i];
		else if (of_sample > hour && of_sample < *ret_next_hour)
			*ret_next_hour = of_sample;
	}
	return count;
}

/** Hour by hour, which is what a batch may cover. */
static int push_hours(struct pushing *pushing)
{
	const struct profile *profile = pushing->importer.profile;
	_cleanup_free_ struct sample *samples =
		malloc(profile->sample_count * sizeof(*profile->samples));
	uint64_t hour = UINT64_MAX, next;
	int rc = 0;

	if (!samples)
		return error_set(pushing->err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < profile->sample_count; i++)
		hour = hour_of(&profile->samples[i]) < hour ? hour_of(&profile->samples[i]) : hour;
	for (; !rc && hour != UINT64_MAX; hour = next) {
		uint32_t count = take_hour(profile, hour, samples, &next);

		for (uint32_t i = 0; i < count && !rc; i += BATCH_ROWS_MAX)
			rc = push_samples(pushing, samples + i,
					  count - i < BATCH_ROWS_MAX ? count - i : BATCH_ROWS_MAX,
					  hour);
	}
	return rc;
}

int push_file(const struct push_options *options, const char *path, struct push_result *ret_result,
	      struct error *err)
{
	_cleanup_(pushing_deinit) struct pushing pushing = { .options = options,
							     .path = path,
							     .err = err };
	int rc = read_file(&pushing);

	if (!rc)
		rc = make_labels(&pushing);
	if (!rc)
		rc = import(&pushing);
	if (rc)
		return rc;
	identify(&pushing);
	pushing.result.samples = pushing.importer.samples;
	pushing.result.types = count_types(pushing.importer.profile);
	pushing.result.from_ns = pushing.importer.profile->from_ns;
	pushing.result.to_ns = pushing.importer.profile->to_ns;
	rc = push_hours(&pushing);
	pushing.result.duplicate = pushing.duplicates == pushing.batches;
	if (!rc)
		*ret_result = pushing.result;
	return rc;
}
