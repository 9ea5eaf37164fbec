// SPDX-License-Identifier: Apache-2.0
#include "collector/resource_plan.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/log.h"
#include "collector/http/http_server.h"

enum {
	DESCRIPTORS_USEFUL = 16384,
	// RocksDB's 256 tables, its log files, debug files, the helpers' pipes, administrators.
	DESCRIPTORS_RESERVED = 384 + ADMIN_CONNECTIONS_MAX,
	MEMORY_SHARES = 4, // two are the store's, one the messages', one the answers'
};

#define MEMORY_DEFAULT_MAX (2ULL << 30) // without a limit: it shares the machine with others
#define MEMORY_MIN         (64ULL << 20)
// A batch of 4 MiB, of which agents rely that it is taken in the end, and some small ones beside it.
#define MESSAGES_MIN (128ULL << 20)
#define ANSWERS_MIN  (32ULL << 20)

static uint64_t larger(uint64_t left, uint64_t right)
{
	return left > right ? left : right;
}

static uint64_t smaller(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}

struct memory_plan memory_plan_make(uint64_t wanted_bytes, uint64_t cgroup_bytes,
				    uint64_t machine_bytes)
{
	uint64_t total = wanted_bytes;

	if (!total)
		total = cgroup_bytes && cgroup_bytes < machine_bytes
				? cgroup_bytes / 4 * 3
				: smaller(machine_bytes / 4, MEMORY_DEFAULT_MAX);
	total = larger(total, MEMORY_MIN);
	return (struct memory_plan){
		.total_bytes = total,
		.store_bytes = total / MEMORY_SHARES * 2,
		.messages_bytes = larger(total / MEMORY_SHARES, MESSAGES_MIN),
		.answers_bytes = larger(total / MEMORY_SHARES, ANSWERS_MIN),
		.connections_max =
			(uint32_t)smaller(CONNECTIONS_MAX, total / 16 / CONNECTION_BYTES),
	};
}

int descriptor_plan_make(uint64_t limit, uint32_t agents_max, struct descriptor_plan *ret_plan,
			 struct error *err)
{
	if (limit < DESCRIPTORS_MIN)
		return error_set(
			err, -EMFILE,
			"the limit of open files is %llu, and the collector needs %d: raise "
			"it (ulimit -n, LimitNOFILE=)",
			(unsigned long long)limit, DESCRIPTORS_MIN);

	uint64_t left = limit - smaller(DESCRIPTORS_RESERVED, limit / 2);
	uint64_t http = smaller(left / 4, HTTP_CONNECTIONS_MAX);
	*ret_plan = (struct descriptor_plan){
		.limit = limit,
		.http = (uint32_t)http,
		.agents = (uint32_t)smaller(left - http, agents_max),
	};
	return 0;
}

uint64_t descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return DESCRIPTORS_MIN;
	rlim_t useful = smaller(limit.rlim_max, DESCRIPTORS_USEFUL);
	if (limit.rlim_cur < useful) {
		struct rlimit raised = { .rlim_cur = useful, .rlim_max = limit.rlim_max };

		if (!setrlimit(RLIMIT_NOFILE, &raised))
			limit = raised;
	}
	return limit.rlim_cur;
}
