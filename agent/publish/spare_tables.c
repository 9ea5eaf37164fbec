// SPDX-License-Identifier: Apache-2.0
// Which unwind tables can be spared, in which order, and how they go.
#include <errno.h>

#include "agent/publish/table_shares.h"
#include "agent/publish/unwind_tables.h"
#include "agent/publish/unwind_tables_state.h"
#include "base/cleanup.h"
#include "base/time_span.h"

/* A table is evicted for one that more than so many times as many samples need. */
enum { RARE_SHARE = 4 };

/* Extra space: small tables arrive before the one that it is freed for. */
enum { SLACK_SHARE = 64 };

/* Tables evicted by one trim(): each takes a grace period of the builder's time. */
enum { TRIM_MAX = 64 };

/* Unmapped tables are kept for this part of kept_ns. */
#define UNMAPPED_SHARE 12

// Not while it is rebuilt: the result decides which table there is.
static bool is_evictable(const struct file *file)
{
	return file->key[0] && file->public.state == UNWIND_FILE_READY && !file->job;
}

/* Eviction order. */
enum spare {
	SPARE_UNNEEDED, // no sample needed it
	SPARE_UNUSED,   // no process that maps it was sampled for long
	SPARE_UNMAPPED, // no process maps it
	SPARE_RARE,     // needed by far fewer samples than the file that wants space
	SPARE_GREEDY,   // of a payer who has more than that of the file that wants space
	SPARE_NOT,
};

/* The file that wants space, and what decides which others give it. */
struct want {
	const struct file *file;
	uint64_t now_ns, kept_ns;
	struct table_shares shares;
};

static struct table_share share_of(const struct file *file)
{
	return (struct table_share){ file->payer, file->public.bytes };
}

static struct want want_of(const struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns,
			   uint32_t wanting)
{
	struct want want = {
		&tables->files[wanting], now_ns, kept_ns, { .bytes_max = tables->bytes_max }
	};

	for (uint32_t i = 0; i < tables->slot_count; i++)
		if (tables->files[i].key[0] && tables->files[i].public.state == UNWIND_FILE_READY)
			table_shares_add(&want.shares, share_of(&tables->files[i]));
	return want;
}

// Processes that run again and again, such as compilers, still find their tables for a while.
static bool is_unmapped(const struct file *file, uint64_t now_ns, uint64_t kept_ns)
{
	return !file->holders && file->unmapped_ns &&
	       ns_between(file->unmapped_ns, now_ns) > kept_ns / UNMAPPED_SHARE;
}

static enum spare spare_of(const struct file *file, const struct want *want)
{
	struct table_share share = share_of(file), wanting = share_of(want->file);

	if (!is_evictable(file))
		return SPARE_NOT;
	if (!file->misses)
		return SPARE_UNNEEDED;
	if (ns_between(file->used_ns, want->now_ns) > want->kept_ns)
		return SPARE_UNUSED;
	if (is_unmapped(file, want->now_ns, want->kept_ns))
		return SPARE_UNMAPPED;
	if (file->misses < want->file->misses / RARE_SHARE &&
	    table_shares_may_push_out(&want->shares, wanting, share))
		return SPARE_RARE;
	return table_shares_lets_in(&want->shares, wanting, share) ? SPARE_GREEDY : SPARE_NOT;
}

// Order within one kind.
static bool evicts_before(const struct file *file, const struct file *other, enum spare spare)
{
	switch (spare) {
	case SPARE_UNNEEDED:
		return file->public.bytes > other->public.bytes;
	case SPARE_UNUSED:
	case SPARE_UNMAPPED:
		return file->used_ns < other->used_ns;
	default:
		return file->misses < other->misses;
	}
}

uint32_t unwind_tables_victim(const struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns,
			      uint32_t wanting)
{
	const struct want want = want_of(tables, now_ns, kept_ns, wanting);
	enum spare most = SPARE_NOT;
	uint32_t victim = HASH_TABLE_NONE;

	for (uint32_t i = 0; i < tables->slot_count; i++) {
		const struct file *file = &tables->files[i];
		enum spare spare = spare_of(file, &want);

		if (spare < most || (spare == most && spare != SPARE_NOT &&
				     evicts_before(file, &tables->files[victim], spare))) {
			most = spare;
			victim = i;
		}
	}
	return victim;
}

uint64_t unwind_tables_spare_bytes(const struct unwind_tables *tables, uint64_t now_ns,
				   uint64_t kept_ns, uint32_t wanting)
{
	struct want want = want_of(tables, now_ns, kept_ns, wanting);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < tables->slot_count; i++) {
		const struct file *file = &tables->files[i];

		if (spare_of(file, &want) == SPARE_NOT)
			continue;
		bytes += file->public.bytes;
		table_shares_remove(&want.shares, share_of(file)); // its payer has less to give
	}
	return bytes;
}

uint64_t unwind_tables_shortage(const struct unwind_tables *tables, uint32_t wanting)
{
	uint64_t bytes = tables->files[wanting].public.bytes;
	uint64_t all = tables->stats.bytes + bytes;

	// Bytes are free: numbers or rules are used up, and any table frees some.
	if (all <= tables->bytes_max)
		return bytes;
	return all - tables->bytes_max + tables->bytes_max / SLACK_SHARE;
}

int unwind_tables_withdraw(struct unwind_tables *tables, uint32_t item)
{
	struct file *file = &tables->files[item];
	struct unwind_job *job = unwind_job_new(UNWIND_JOB_REMOVE, file->public.number);

	if (!job)
		return -ENOMEM;
	job->file = item;
	file->job = job;
	tables->stats.bytes -= file->public.bytes;
	tables->stats.evicted++;
	file->misses = 0;
	analyzed_file_close(file->analyzed, &tables->analyzed);
	unwind_tables_set_state(tables, file, UNWIND_FILE_IDLE);
	return 0;
}

void unwind_tables_remove(struct unwind_tables *tables, uint32_t item)
{
	struct file *file = &tables->files[item];

	unwind_tables_begin_removal(tables, take(file->job));
}

static bool is_half_full(const struct unwind_tables *tables)
{
	return tables->stats.bytes > tables->bytes_max / 2 ||
	       tables->stats.ready > UNWIND_TABLES_MAX / 2;
}

void unwind_tables_trim(struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns)
{
	uint32_t removed = 0;

	for (uint32_t i = 0; i < tables->slot_count && removed < TRIM_MAX && is_half_full(tables);
	     i++) {
		const struct file *file = &tables->files[i];

		if (!is_evictable(file) || file->holders ||
		    ns_between(file->unmapped_ns, now_ns) <= kept_ns ||
		    unwind_tables_withdraw(tables, i))
			continue;
		unwind_tables_remove(tables, i);
		removed++;
	}
}
