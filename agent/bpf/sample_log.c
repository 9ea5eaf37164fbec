// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/sample_log.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

static size_t log_bytes(uint32_t cpu_count)
{
	return (size_t)sample_log_size(cpu_count) * sizeof(struct logged_sample);
}

uint32_t sample_log_size(uint32_t cpu_count)
{
	return cpu_count * 2 * sample_log_entries(cpu_count);
}

int sample_log_open(struct sample_log *log, int map_fd, uint32_t cpu_count)
{
	void *samples = mmap(NULL, log_bytes(cpu_count), PROT_READ, MAP_SHARED, map_fd, 0);

	if (samples == MAP_FAILED)
		return -errno;
	*log = (struct sample_log){ samples, cpu_count };
	return 0;
}

void sample_log_close(struct sample_log *log)
{
	if (log->samples)
		munmap((void *)log->samples, log_bytes(log->cpu_count));
	*log = (struct sample_log){ 0 };
}

int sample_log_read(const struct sample_log *log, uint32_t generation,
		    int (*fn)(void *context, const struct count_key *key,
			      const struct count *count),
		    void *context)
{
	uint32_t entries = sample_log_entries(log->cpu_count);

	for (uint32_t cpu = 0; cpu < log->cpu_count; cpu++) {
		const struct logged_sample *sample =
			&log->samples[sample_log_place(cpu, generation, entries)];

		for (uint32_t i = 0; i < entries; i++, sample++) {
			if (sample->generation != generation + 1ULL)
				break;
			int rc = fn(context, &sample->key, &sample->count);
			if (rc)
				return rc;
		}
	}
	return 0;
}
