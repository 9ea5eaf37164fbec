// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/push_door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/collapsed_import.h"
#include "base/import/inflated.h"
#include "base/import/pprof_import.h"
#include "base/import/wire.h"
#include "base/text.h"
#include "collector/doors/json_message.h"
#include "collector/doors/multipart.h"

enum {
	NAME_BYTES = 128,          // of a profile or an application
	SALT_BYTES = 4096,         // of a URL's parameters
	SAMPLE_RATE_DEFAULT = 100, // Pyroscope's, in Hz
	SAMPLE_RATE_MAX = 1000000,
};

// ---- times ------------------------------------------------------------------------------------

/** Unix time in seconds, or by its number of digits in ms, us or ns. Returns 0 or -EINVAL. */
static int parse_time(const char *name, const char *text, uint64_t *ret_ns, struct error *err)
{
	static const struct {
		size_t digits_max;
		uint64_t ns;
	} units[] = { { 11, NS_PER_SECOND }, { 14, NS_PER_MS }, { 17, 1000 }, { 19, 1 } };
	size_t digits = strspn(text, "0123456789");

	*ret_ns = 0;
	if (!*text)
		return 0;
	for (size_t i = 0; !text[digits] && i < ARRAY_SIZE(units); i++) {
		uint64_t ns;

		if (digits > units[i].digits_max)
			continue;
		if (__builtin_mul_overflow(strtoull(text, NULL, 10), units[i].ns, &ns))
			break;
		*ret_ns = ns;
		return 0;
	}
	return error_set(err, -EINVAL,
			 "%s: \"%.40s\" is no Unix time in seconds, milliseconds, microseconds or "
			 "nanoseconds",
			 name, text);
}

static int parse_range(const struct door_request *request, const char *to_name,
		       struct import_source *source, struct error *err)
{
	int rc = parse_time("from", door_parameter(request, "from"), &source->from_ns, err);

	if (!rc)
		rc = parse_time(to_name, door_parameter(request, to_name), &source->to_ns, err);
	if (!rc && source->from_ns && source->to_ns && source->to_ns < source->from_ns)
		rc = error_set(err, -EINVAL, "%s: before from", to_name);
	return rc;
}

static int finish_labels(struct labels *labels, struct error *err)
{
	int rc = import_finish_labels(labels);

	if (rc == -E2BIG)
		return error_set(err, -EINVAL, "labels: more than %d", LABELS_MAX);
	return rc ? error_errno(err, rc, "labels") : 0;
}

// ---- pprof ------------------------------------------------------------------------------------

/** Parameters that are no labels. */
static bool is_setting(const char *name)
{
	return strcmp(name, "name") == 0 || strcmp(name, "from") == 0 || strcmp(name, "to") == 0;
}

struct label_reading {
	struct labels *labels;
	struct buffer *salt;
};

static void read_label(void *context, const char *name, const char *value)
{
	struct label_reading *reading = context;

	buffer_printf(reading->salt, "%s=%s\n", name, value);
	if (!is_setting(name))
		import_label(reading->labels, name, strlen(name), value, strlen(value));
}

int push_pprof(struct doors *doors, const struct door_request *request,
	       struct door_outcome *ret_outcome, struct error *err)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	_cleanup_(buffer_deinit) struct buffer salt = { 0 };
	_cleanup_(door_work_end) struct door_work work = { .doors = doors };
	struct label_reading reading = { &labels, &salt };
	struct import_source source = { .labels = &labels,
					.name = door_parameter(request, "name") };

	if (request->each_parameter)
		request->each_parameter(request->context, read_label, &reading);
	int rc = parse_range(request, "to", &source, err);
	if (!rc)
		rc = finish_labels(&labels, err);
	if (!rc)
		rc = door_work_begin(&work, doors, request->identity, request->bytes, request->size,
				     err);
	if (!rc)
		rc = pprof_import(&work.importer, &source, work.bytes, work.size, err);
	return rc ? rc : door_store(&work, request, buffer_string(&salt), ret_outcome, err);
}

// ---- /ingest ----------------------------------------------------------------------------------

/** What the end of an application's name says about folded stacks: "app.wall". */
static const struct {
	const char *suffix, *name, *sample_type, *unit;
	bool is_time; // samples, of which each stands for a period
} suffixes[] = {
	{ ".cpu", "process_cpu", "cpu", "nanoseconds", true },
	{ ".itimer", "process_cpu", "cpu", "nanoseconds", true },
	{ ".wall", "wall", "wall", "nanoseconds", true },
	{ ".alloc_objects", "memory", "alloc_objects", "count", false },
	{ ".alloc_space", "memory", "alloc_space", "bytes", false },
	{ ".inuse_objects", "memory", "inuse_objects", "count", false },
	{ ".inuse_space", "memory", "inuse_space", "bytes", false },
	{ ".goroutines", "goroutine", "goroutine", "count", false },
	{ ".exceptions", "exceptions", "exceptions", "count", false },
	{ ".lock_count", "mutex", "lock_count", "count", false },
	{ ".lock_duration", "mutex", "lock_time", "nanoseconds", false },
	{ ".mutex_count", "mutex", "contentions", "count", false },
	{ ".mutex_duration", "mutex", "delay", "nanoseconds", false },
	{ ".block_count", "block", "contentions", "count", false },
	{ ".block_duration", "block", "delay", "nanoseconds", false },
};

struct ingest {
	const struct door_request *request;
	struct labels labels;
	char application[NAME_BYTES];
	struct import_source source;
	struct import_type type;
	struct multipart_part body, settings, previous;
};

/** "{a=b,c=d}", with or without quotation marks. */
static int read_tags(struct ingest *ingest, const char *text, struct error *err)
{
	while (*text && *text != '}') {
		size_t size = strcspn(text, ",}");
		const char *equals = memchr(text, '=', size);

		if (!equals)
			return error_set(err, -EINVAL,
					 "name: \"%.60s\" is no label=value; expected "
					 "app{label=value,...}",
					 text);
		const char *value = equals + 1, *end = text + size;
		size_t name_size = (size_t)(equals - text);
		while (name_size && text[name_size - 1] == ' ')
			name_size--;
		if (end - value >= 2 && *value == '"' && end[-1] == '"')
			value++, end--;
		import_label(&ingest->labels, text, name_size, value, (size_t)(end - value));
		text += size + (text[size] == ',');
		text += strspn(text, " ");
	}
	return 0;
}

static int read_name(struct ingest *ingest, struct error *err)
{
	const char *name = door_parameter(ingest->request, "name");
	size_t size = strcspn(name, "{");

	if (!size || size >= NAME_BYTES)
		return error_set(err, -EINVAL,
				 "name: expected app{label=value,...}, of at most %d bytes before "
				 "the labels",
				 NAME_BYTES - 1);
	snprintf(ingest->application, sizeof(ingest->application), "%.*s", (int)size, name);
	return name[size] ? read_tags(ingest, name + size + 1, err) : 0;
}

static int set_service(struct ingest *ingest, struct error *err)
{
	if (!labels_get(&ingest->labels, LABEL_SERVICE))
		import_label(&ingest->labels, LABEL_SERVICE, strlen(LABEL_SERVICE),
			     ingest->application, strlen(ingest->application));
	return finish_labels(&ingest->labels, err);
}

static int read_body(struct ingest *ingest, struct error *err)
{
	const struct door_request *request = ingest->request;

	ingest->body = (struct multipart_part){ request->bytes, request->size };
	if (!multipart_is_type(request->content_type))
		return 0;
	if (!multipart_find(request->content_type, request->bytes, request->size, "profile",
			    &ingest->body)) {
		if (multipart_find(request->content_type, request->bytes, request->size, "jfr",
				   &ingest->body))
			return error_set(err, -ENOTSUP,
					 "format jfr: Java Flight Recorder files are not read; let "
					 "the profiler write pprof or collapsed stacks");
		return error_set(err, -EBADMSG, "body: no part \"profile\"");
	}
	multipart_find(request->content_type, request->bytes, request->size, "sample_type_config",
		       &ingest->settings);
	multipart_find(request->content_type, request->bytes, request->size, "prev_profile",
		       &ingest->previous);
	return 0;
}

/** Of mutexes' and of blocking profiles the sample types are the same; display names tell them apart. */
static void name_profile(struct ingest *ingest)
{
	static const char block[] = "\"block_";

	if (ingest->settings.size &&
	    memmem(ingest->settings.bytes, ingest->settings.size, block, strlen(block)))
		ingest->source.name = "block";
}

static int read_pprof(struct ingest *ingest, struct door_work *work, struct error *err)
{
	if (ingest->previous.size)
		return error_set(err, -ENOTSUP,
				 "prev_profile: cumulative profiles are not read; let the client "
				 "push differences");
	name_profile(ingest);
	return pprof_import(&work->importer, &ingest->source, work->bytes, work->size, err);
}

static int parse_rate(const struct ingest *ingest, int64_t *ret_period_ns, struct error *err)
{
	const char *text = door_parameter(ingest->request, "sampleRate");
	size_t digits = strspn(text, "0123456789");
	unsigned long rate = *text ? strtoul(text, NULL, 10) : SAMPLE_RATE_DEFAULT;

	if (text[digits] || !rate || rate > SAMPLE_RATE_MAX || digits > 7)
		return error_set(err, -EINVAL, "sampleRate: \"%.20s\" is not 1 to %d", text,
				 SAMPLE_RATE_MAX);
	*ret_period_ns = (int64_t)(NS_PER_SECOND / rate);
	return 0;
}

/** The type of folded stacks: by the end of the application's name, or samples on a CPU. */
static int type_folded(struct ingest *ingest, struct error *err)
{
	size_t which = 0, size = strlen(ingest->application);
	const char *units = door_parameter(ingest->request, "units");

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (!text_ends_with(ingest->application, suffixes[i].suffix))
			continue;
		which = i;
		ingest->application[size - strlen(suffixes[i].suffix)] = '\0';
		break;
	}
	bool is_time = suffixes[which].is_time && (!*units || strcmp(units, "samples") == 0);
	ingest->source.name = suffixes[which].name;
	import_type_make(&ingest->source, suffixes[which].sample_type, suffixes[which].unit,
			 is_time ? suffixes[which].sample_type : "", "", &ingest->type);
	ingest->source.type = ingest->type.text;
	return is_time ? parse_rate(ingest, &ingest->source.value_scale, err) : 0;
}

static bool is_pprof(const struct ingest *ingest, const char *format)
{
	if (*format)
		return strcmp(format, "pprof") == 0;
	return ingest->body.size && (is_gzip(ingest->body.bytes, ingest->body.size) ||
				     pprof_is_likely(ingest->body.bytes, ingest->body.size));
}

static int refuse_format(const char *format, struct error *err)
{
	if (strcmp(format, "jfr") == 0)
		return error_set(err, -ENOTSUP,
				 "format jfr: Java Flight Recorder files are not read; let the "
				 "profiler write pprof or collapsed stacks");
	return error_set(err, -ENOTSUP,
			 "format \"%.20s\": not read; expected pprof, folded, collapsed or lines",
			 format);
}

static int store_ingest(struct ingest *ingest, struct door_work *work,
			struct door_outcome *ret_outcome, struct error *err)
{
	char salt[SALT_BYTES];

	snprintf(salt, sizeof(salt), "%s %s %s", door_parameter(ingest->request, "name"),
		 door_parameter(ingest->request, "from"), door_parameter(ingest->request, "until"));
	// Boundaries of parts are random: what is in them counts.
	const struct door_request request = {
		.identity = ingest->request->identity,
		.address = ingest->request->address,
		.bytes = ingest->body.bytes,
		.size = ingest->body.size,
	};
	return door_store(work, &request, salt, ret_outcome, err);
}

static int import_body(struct ingest *ingest, struct door_work *work, struct error *err)
{
	const char *format = door_parameter(ingest->request, "format");
	bool is_lines = strcmp(format, "lines") == 0;
	bool is_binary = is_pprof(ingest, format);

	if (!is_binary && !is_lines && *format && strcmp(format, "folded") != 0 &&
	    strcmp(format, "collapsed") != 0 && strcmp(format, "groups") != 0)
		return refuse_format(format, err);
	int rc = is_binary ? 0 : type_folded(ingest, err);
	if (!rc)
		rc = set_service(ingest, err);
	if (rc)
		return rc;
	if (is_binary)
		return read_pprof(ingest, work, err);
	return collapsed_import(&work->importer, &ingest->source, work->bytes, work->size,
				is_lines ? COLLAPSED_UNCOUNTED : COLLAPSED_COUNTED, err);
}

static void ingest_deinit(struct ingest *ingest)
{
	labels_deinit(&ingest->labels);
}

int push_ingest(struct doors *doors, const struct door_request *request,
		struct door_outcome *ret_outcome, struct error *err)
{
	_cleanup_(ingest_deinit) struct ingest ingest = { .request = request };
	_cleanup_(door_work_end) struct door_work work = { .doors = doors };

	ingest.source.labels = &ingest.labels;
	int rc = read_name(&ingest, err);
	if (!rc)
		rc = parse_range(request, "until", &ingest.source, err);
	if (!rc)
		rc = read_body(&ingest, err);
	if (!rc)
		rc = door_work_begin(&work, doors, request->identity, ingest.body.bytes,
				     ingest.body.size, err);
	if (!rc)
		rc = import_body(&ingest, &work, err);
	return rc ? rc : store_ingest(&ingest, &work, ret_outcome, err);
}

// ---- push.v1 ----------------------------------------------------------------------------------

static const struct json_field label_fields[] = { { "name", 1, JSON_TEXT, NULL },
						  { "value", 2, JSON_TEXT, NULL },
						  { 0 } };
static const struct json_field sample_fields[] = { { "rawProfile", 1, JSON_BASE64, NULL },
						   { "ID", 2, JSON_TEXT, NULL },
						   { 0 } };
static const struct json_field series_fields[] = { { "labels", 1, JSON_OBJECT, label_fields },
						   { "samples", 2, JSON_OBJECT, sample_fields },
						   { 0 } };
static const struct json_field push_fields[] = { { "series", 1, JSON_OBJECT, series_fields },
						 { 0 } };

/** A LabelPair. */
static bool read_pair(const struct wire_field *message, struct wire_text *ret_name,
		      struct wire_text *ret_value)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	*ret_name = *ret_value = (struct wire_text){ "", 0 };
	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			*ret_name = wire_string(&field);
		else if (field.number == 2)
			*ret_value = wire_string(&field);
	}
	return !reader.failed;
}

static bool text_is(struct wire_text text, const char *wanted)
{
	return text.size == strlen(wanted) && memcmp(text.at, wanted, text.size) == 0;
}

struct pushed_series {
	struct labels labels;
	char name[NAME_BYTES]; // __name__
};

static int read_series_labels(const struct wire_field *message, struct pushed_series *series,
			      struct error *err)
{
	struct reader reader = wire_message(message);
	struct wire_text name, value;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number != 1)
			continue;
		if (!read_pair(&field, &name, &value))
			return error_set(err, -EBADMSG, "series.labels: malformed");
		if (text_is(name, "__name__"))
			snprintf(series->name, sizeof(series->name), "%.*s",
				 (int)(value.size < NAME_BYTES ? value.size : NAME_BYTES - 1),
				 value.at);
		else
			import_label(&series->labels, name.at, name.size, value.at, value.size);
	}
	if (reader.failed)
		return error_set(err, -EBADMSG, "series: malformed");
	return finish_labels(&series->labels, err);
}

static int import_sample(struct door_work *work, const struct pushed_series *series,
			 const struct wire_field *message, struct error *err)
{
	const struct import_source source = { .labels = &series->labels, .name = series->name };
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		if (field.number != 1 || field.type != WIRE_BYTES)
			continue;
		rc = door_work_next(work, field.bytes, field.size, err);
		if (!rc)
			rc = pprof_import(&work->importer, &source, work->bytes, work->size, err);
	}
	return !rc && reader.failed ? error_set(err, -EBADMSG, "series.samples: malformed") : rc;
}

static int import_series(struct door_work *work, const struct wire_field *message,
			 struct pushed_series *series, struct error *err)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = read_series_labels(message, series, err);

	while (!rc && wire_next(&reader, &field))
		if (field.number == 2)
			rc = import_sample(work, series, &field, err);
	return rc;
}

static int import_push(struct door_work *work, const void *bytes, size_t size, struct error *err)
{
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		struct pushed_series series = { 0 };

		if (field.number != 1)
			continue;
		rc = import_series(work, &field, &series, err);
		labels_deinit(&series.labels);
	}
	return !rc && reader.failed ? error_set(err, -EBADMSG, "PushRequest: malformed") : rc;
}

int push_series(struct doors *doors, const struct door_request *request,
		struct door_outcome *ret_outcome, struct error *err)
{
	_cleanup_(door_work_end) struct door_work work = { .doors = doors };
	_cleanup_(buffer_deinit) struct buffer body = { .size_max = DOOR_BYTES_MAX,
							.budget = doors->budget };
	int rc = door_work_begin(&work, doors, request->identity, request->bytes, request->size,
				 err);

	// The profiles in it are inflated into the same buffer.
	buffer_append(&body, work.bytes, rc ? 0 : work.size);
	if (!rc && json_is_type(request->content_type)) {
		_cleanup_(buffer_deinit) struct buffer message = { .size_max = DOOR_BYTES_MAX,
								   .budget = doors->budget };
		rc = json_message_encode(push_fields, (const char *)body.bytes, body.size, &message,
					 err);
		if (!rc)
			rc = import_push(&work, message.bytes, message.size, err);
	} else if (!rc) {
		rc = body.rc ? error_errno(err, body.rc, "body")
			     : import_push(&work, body.bytes, body.size, err);
	}
	return rc ? rc : door_store(&work, request, "", ret_outcome, err);
}
