// SPDX-License-Identifier: Apache-2.0
#include "collector/limits/tenant_limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/metric_text.h"
#include "base/path_state.h"
#include "base/text.h"

struct tenant {
	char name[ACCESS_TENANT_BYTES];
	struct tenant_limits *limits;
	struct byte_budget queries;
	pthread_mutex_t lock; // guards the fields below
	struct tenant_values values;
	double ingest_used; // bytes above what ingest-rate has worked off until `used_ns`
	uint64_t used_ns;   // monotonic
	uint64_t ingest_bytes;
	uint64_t refused[TENANT_LIMITS];
	uint64_t refused_ns[TENANT_LIMITS]; // Unix time of the last one
};

struct tenant_limits {
	char *path; // NULL: none
	struct path_state state;
	pthread_mutex_t lock; // guards the fields below; taken before a tenant's
	struct limit_file file;
	struct tenant **tenants;
	uint32_t count, capacity;
	struct hash_table index;
};

// ---- the file ---------------------------------------------------------------------------------

static int read_file(struct tenant_limits *limits, struct error *err)
{
	struct path_state state = path_state_of(limits->path);
	struct limit_file file = { 0 };
	int rc = limit_file_read(limits->path, &file, err);

	// A bad line is read again when somebody changes it; whatever else failed may pass by itself.
	if (!rc || rc == -EINVAL)
		limits->state = state;
	if (rc)
		return rc;
	pthread_mutex_lock(&limits->lock);
	struct limit_file old = limits->file;
	limits->file = file;
	for (uint32_t i = 0; i < limits->count; i++) {
		struct tenant *tenant = limits->tenants[i];

		pthread_mutex_lock(&tenant->lock);
		limit_file_find(&file, tenant->name, &tenant->values);
		pthread_mutex_unlock(&tenant->lock);
	}
	pthread_mutex_unlock(&limits->lock);
	limit_file_deinit(&old);
	return 0;
}

int tenant_limits_open(const char *path, struct tenant_limits **ret_limits, struct error *err)
{
	struct tenant_limits *limits = calloc(1, sizeof(*limits));
	int rc = 0;

	if (!limits)
		return error_set(err, -ENOMEM, "limits: out of memory");
	pthread_mutex_init(&limits->lock, NULL);
	if (path) {
		limits->path = strdup(path);
		rc = limits->path ? read_file(limits, err)
				  : error_set(err, -ENOMEM, "limits: out of memory");
	}
	if (rc) {
		tenant_limits_close(limits);
		return rc;
	}
	*ret_limits = limits;
	return 0;
}

static void tenant_free(struct tenant *tenant)
{
	pthread_mutex_destroy(&tenant->lock);
	free(tenant);
}

void tenant_limits_close(struct tenant_limits *limits)
{
	if (!limits)
		return;
	for (uint32_t i = 0; i < limits->count; i++)
		tenant_free(limits->tenants[i]);
	free(limits->tenants);
	hash_table_deinit(&limits->index);
	limit_file_deinit(&limits->file);
	pthread_mutex_destroy(&limits->lock);
	free(limits->path);
	free(limits);
}

int tenant_limits_refresh(struct tenant_limits *limits, struct error *err)
{
	if (!limits->path || path_state_equal(limits->state, path_state_of(limits->path)))
		return 0;
	int rc = read_file(limits, err);
	return rc ? rc : 1;
}

const char *tenant_limits_file(const struct tenant_limits *limits)
{
	return limits && limits->path ? path_base_name(limits->path) : "";
}

// ---- tenants ----------------------------------------------------------------------------------

static bool has_name(const void *context, uint32_t item, const void *key)
{
	const struct tenant_limits *limits = context;

	return strcmp(limits->tenants[item]->name, key) == 0;
}

/** NULL: no memory, or there are too many. */
static struct tenant *add(struct tenant_limits *limits, const char *name, uint64_t hash)
{
	if (array_reserve(&limits->tenants, sizeof(struct tenant *), &limits->capacity,
			  limits->count, 1, LIMITED_TENANTS_MAX))
		return NULL;
	struct tenant *tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return NULL;
	pthread_mutex_init(&tenant->lock, NULL);
	snprintf(tenant->name, sizeof(tenant->name), "%s", name);
	tenant->limits = limits;
	limit_file_find(&limits->file, name, &tenant->values);
	if (hash_table_add(&limits->index, hash, limits->count)) {
		tenant_free(tenant);
		return NULL;
	}
	return limits->tenants[limits->count++] = tenant;
}

struct tenant *tenant_limits_find(struct tenant_limits *limits, const char *name)
{
	if (!limits)
		return NULL;
	uint64_t hash = hash64_of(name, strlen(name));

	pthread_mutex_lock(&limits->lock);
	uint32_t at = hash_table_find(&limits->index, hash, has_name, limits, name);
	struct tenant *tenant =
		at != HASH_TABLE_NONE ? limits->tenants[at] : add(limits, name, hash);
	pthread_mutex_unlock(&limits->lock);
	return tenant;
}

void tenant_read_values(struct tenant *tenant, struct tenant_values *ret_values)
{
	static const struct limit_file none;

	if (!tenant) {
		limit_file_find(&none, "", ret_values);
		return;
	}
	pthread_mutex_lock(&tenant->lock);
	*ret_values = tenant->values;
	pthread_mutex_unlock(&tenant->lock);
}

/** As the access file writes it. */
static const char *shown_name(const char *name)
{
	return *name ? name : "-";
}

static void write_words(const struct tenant *tenant, enum tenant_limit limit,
			char text[TENANT_WORDS_BYTES])
{
	const struct tenant_limit_spec *spec = tenant_limit_spec(limit);
	char value[TENANT_LIMIT_TEXT_BYTES], place[64] = "the default; --limits sets it";
	uint32_t line = tenant->values.line[limit];

	if (line)
		snprintf(place, sizeof(place), "%.40s:%u", path_base_name(tenant->limits->path),
			 line);
	snprintf(text, TENANT_WORDS_BYTES, "tenant %s: %s: %s (%s)", shown_name(tenant->name),
		 spec->name,
		 tenant->values.of[limit]
			 ? tenant_limit_text(limit, tenant->values.of[limit], value)
			 : "no limit",
		 place);
}

void tenant_limit_words(struct tenant *tenant, enum tenant_limit limit,
			char text[TENANT_WORDS_BYTES])
{
	*text = '\0';
	if (!tenant)
		return;
	pthread_mutex_lock(&tenant->lock);
	write_words(tenant, limit, text);
	pthread_mutex_unlock(&tenant->lock);
}

static void count_locked(struct tenant *tenant, enum tenant_limit limit, uint64_t count)
{
	tenant->refused[limit] += count;
	tenant->refused_ns[limit] = clock_realtime_ns();
}

void tenant_count(struct tenant *tenant, enum tenant_limit limit, uint64_t count)
{
	if (!tenant || !count)
		return;
	pthread_mutex_lock(&tenant->lock);
	count_locked(tenant, limit, count);
	pthread_mutex_unlock(&tenant->lock);
}

// ---- ingest -----------------------------------------------------------------------------------

static double burst_of(const struct tenant *tenant)
{
	uint64_t burst = tenant->values.of[LIMIT_INGEST_BURST];

	return burst ? (double)burst
		     : (double)tenant->values.of[LIMIT_INGEST_RATE] * TENANT_BURST_SECONDS;
}

/** Work off what the rate allows since the last time. */
static void work_off(struct tenant *tenant, uint64_t now_ns)
{
	double rate = (double)tenant->values.of[LIMIT_INGEST_RATE];
	double seconds = (double)ns_between(tenant->used_ns, now_ns) / NS_PER_SECOND;

	// Another thread may have read its clock later.
	tenant->used_ns = now_ns > tenant->used_ns ? now_ns : tenant->used_ns;
	tenant->ingest_used -= rate * seconds;
	if (tenant->ingest_used < 0 || !rate)
		tenant->ingest_used = 0;
}

/** In milliseconds, rounded up; 0: there is room. */
static uint32_t pause_locked(const struct tenant *tenant)
{
	uint64_t rate = tenant->values.of[LIMIT_INGEST_RATE];
	double above = tenant->ingest_used - burst_of(tenant);

	if (!rate || above < 0)
		return 0;
	double ms = above / (double)rate * 1000 + 1;
	return ms < UINT32_MAX / 2 ? (uint32_t)ms : UINT32_MAX / 2;
}

int tenant_take_ingest(struct tenant *tenant, uint64_t bytes, uint64_t now_ns, struct error *err)
{
	char words[TENANT_WORDS_BYTES];

	if (!tenant)
		return 0;
	pthread_mutex_lock(&tenant->lock);
	work_off(tenant, now_ns);
	uint32_t pause_ms = pause_locked(tenant);
	if (pause_ms) {
		count_locked(tenant, LIMIT_INGEST_RATE, 1);
		write_words(tenant, LIMIT_INGEST_RATE, words);
	} else {
		tenant->ingest_used += (double)bytes;
		tenant->ingest_bytes += bytes;
	}
	pthread_mutex_unlock(&tenant->lock);
	return pause_ms ? error_set(err, TENANT_LATER, "%s is used up; send it again in %u.%u s",
				    words, pause_ms / 1000, pause_ms % 1000 / 100)
			: 0;
}

void tenant_charge_ingest(struct tenant *tenant, uint64_t bytes)
{
	if (!tenant)
		return;
	pthread_mutex_lock(&tenant->lock);
	tenant->ingest_used += (double)bytes;
	tenant->ingest_bytes += bytes;
	pthread_mutex_unlock(&tenant->lock);
}

uint32_t tenant_ingest_pause_ms(struct tenant *tenant, uint64_t now_ns)
{
	if (!tenant)
		return 0;
	pthread_mutex_lock(&tenant->lock);
	work_off(tenant, now_ns);
	uint32_t pause_ms = pause_locked(tenant);
	pthread_mutex_unlock(&tenant->lock);
	return pause_ms;
}

// ---- queries ----------------------------------------------------------------------------------

int tenant_check_range(struct tenant *tenant, uint64_t range_ns, struct error *err)
{
	char words[TENANT_WORDS_BYTES];

	if (!tenant)
		return 0;
	pthread_mutex_lock(&tenant->lock);
	bool is_refused = range_ns > tenant->values.of[LIMIT_QUERY_RANGE];
	if (is_refused) {
		count_locked(tenant, LIMIT_QUERY_RANGE, 1);
		write_words(tenant, LIMIT_QUERY_RANGE, words);
	}
	pthread_mutex_unlock(&tenant->lock);
	return is_refused ? error_set(err, TENANT_NEVER,
				      "%s is less than the range asked for; choose a shorter one",
				      words)
			  : 0;
}

struct byte_budget *tenant_query_memory(struct tenant *tenant, size_t *ret_bytes_max)
{
	if (!tenant)
		return NULL;
	pthread_mutex_lock(&tenant->lock);
	*ret_bytes_max = tenant->values.of[LIMIT_QUERY_MEMORY];
	pthread_mutex_unlock(&tenant->lock);
	return *ret_bytes_max ? &tenant->queries : NULL;
}

int tenant_refuse_memory(struct tenant *tenant, bool is_alone, struct error *err)
{
	char words[TENANT_WORDS_BYTES];

	pthread_mutex_lock(&tenant->lock);
	count_locked(tenant, LIMIT_QUERY_MEMORY, 1);
	write_words(tenant, LIMIT_QUERY_MEMORY, words);
	pthread_mutex_unlock(&tenant->lock);
	return is_alone ? error_set(err, TENANT_NEVER,
				    "%s is less than the query needs; choose a shorter range or "
				    "fewer series",
				    words)
			: error_set(err, TENANT_LATER,
				    "%s is in use by the tenant's other queries; try again in a "
				    "moment",
				    words);
}

// ---- what was refused -------------------------------------------------------------------------

static bool is_shown(const struct tenant *tenant, const char *reader)
{
	return strcmp(reader, ACCESS_ALL_TENANTS) == 0 || strcmp(tenant->name, reader) == 0;
}

static void list_tenant(struct tenant *tenant, struct tenant_refusal *list, uint32_t *count)
{
	pthread_mutex_lock(&tenant->lock);
	for (int i = 0; i < TENANT_LIMITS && *count < TENANT_REFUSALS_MAX; i++) {
		if (!tenant->refused[i])
			continue;
		struct tenant_refusal *refusal = &list[(*count)++];

		*refusal = (struct tenant_refusal){ .limit = (enum tenant_limit)i,
						    .value = tenant->values.of[i],
						    .line = tenant->values.line[i],
						    .count = tenant->refused[i],
						    .last_ns = tenant->refused_ns[i] };
		snprintf(refusal->tenant, sizeof(refusal->tenant), "%s", shown_name(tenant->name));
	}
	pthread_mutex_unlock(&tenant->lock);
}

int tenant_limits_list(struct tenant_limits *limits, const char *tenant,
		       struct tenant_refusal **ret_refusals, uint32_t *ret_count)
{
	struct tenant_refusal *list = calloc(TENANT_REFUSALS_MAX, sizeof(*list));
	uint32_t count = 0;

	if (!list)
		return -ENOMEM;
	if (limits) {
		pthread_mutex_lock(&limits->lock);
		for (uint32_t i = 0; i < limits->count; i++)
			if (is_shown(limits->tenants[i], tenant))
				list_tenant(limits->tenants[i], list, &count);
		pthread_mutex_unlock(&limits->lock);
	}
	*ret_refusals = list;
	*ret_count = count;
	return 0;
}

/** What one tenant, or all others together, have in /metrics. */
struct tenant_figures {
	uint64_t ingest_bytes;
	uint64_t refused[TENANT_LIMITS];
};

static void add_figures(struct tenant *tenant, struct tenant_figures *figures)
{
	pthread_mutex_lock(&tenant->lock);
	figures->ingest_bytes += tenant->ingest_bytes;
	for (int i = 0; i < TENANT_LIMITS; i++)
		figures->refused[i] += tenant->refused[i];
	pthread_mutex_unlock(&tenant->lock);
}

struct metric_lines {
	struct buffer bytes, refused;
};

static void append_figures(struct metric_lines *lines, const char *name,
			   const struct tenant_figures *figures)
{
	if (figures->ingest_bytes)
		buffer_printf(&lines->bytes,
			      "cairn_tenant_ingest_bytes_total{tenant=\"%s\"} %llu\n", name,
			      (unsigned long long)figures->ingest_bytes);
	for (int i = 0; i < TENANT_LIMITS; i++)
		if (figures->refused[i])
			buffer_printf(
				&lines->refused,
				"cairn_tenant_refused_total{tenant=\"%s\",limit=\"%s\"} %llu\n",
				name, tenant_limit_spec((enum tenant_limit)i)->name,
				(unsigned long long)figures->refused[i]);
}

static void append_tenants(struct tenant_limits *limits, const char *reader,
			   struct metric_lines *lines)
{
	struct tenant_figures others = { 0 };

	pthread_mutex_lock(&limits->lock);
	for (uint32_t i = 0; i < limits->count; i++) {
		struct tenant *tenant = limits->tenants[i];
		struct tenant_figures own = { 0 };
		// A reader of one tenant is shown it, whatever its number is.
		bool is_named = i < REPORTED_TENANTS_MAX || strcmp(reader, ACCESS_ALL_TENANTS) != 0;

		if (!is_shown(tenant, reader))
			continue;
		add_figures(tenant, is_named ? &own : &others);
		append_figures(lines, shown_name(tenant->name), &own);
	}
	pthread_mutex_unlock(&limits->lock);
	append_figures(lines, TENANT_OTHERS, &others);
}

void tenant_limits_encode(struct tenant_limits *limits, const char *tenant, struct buffer *buffer)
{
	struct metric_lines lines = { 0 };

	if (limits)
		append_tenants(limits, tenant, &lines);
	metric_text_begin(
		buffer, "cairn_tenant_ingest_bytes_total", "counter",
		"Bytes of batches and pushes that a tenant sent, after decompression; the "
		"refused are not counted.");
	buffer_append(buffer, lines.bytes.bytes, lines.bytes.size);
	metric_text_begin(
		buffer, "cairn_tenant_refused_total", "counter",
		"What a tenant's limit refused or changed; docs/tenants.md says what each "
		"limit counts. Raise it in the file of --limits, or let the tenant send "
		"and ask less.");
	buffer_append(buffer, lines.refused.bytes, lines.refused.size);
	buffer_deinit(&lines.bytes);
	buffer_deinit(&lines.refused);
}
