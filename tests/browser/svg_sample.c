// SPDX-License-Identifier: Apache-2.0
// Writes a flame graph of known shares on standard output, for the browser to open.

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/export/svg.h"
#include "base/contract/label_names.h"

#define HOSTILE "</title><script>window.harmed=1</script>"

static const struct {
	const char *process;
	const char *frames[4]; // root first
	int64_t percent;
} stacks[] = {
	{ "python3", { "Loop.run", "gemm", "gemm" }, 40 },
	{ "python3", { "Loop.run", "gemm" }, 20 },
	{ "python3", { "Loop.run", "memcpy" }, 10 },
	{ "bash", { HOSTILE, "gemm_small" }, 5 },
	{ "bash", { HOSTILE, "write" }, 25 },
};

static int add_frame(struct profile *profile, const char *name, uint32_t *ret_location)
{
	enum frame_kind kind = strchr(name, '.')            ? FRAME_KIND_PYTHON
			       : strcmp(name, "write") == 0 ? FRAME_KIND_KERNEL
							    : FRAME_KIND_NATIVE;
	struct location location = { .id = location_id_of_line(kind, name, "", 0), .kind = kind };
	struct line line = { 0 };
	int rc = profile_add_string(profile, name, &line.name);

	return rc < 0 ? rc : profile_add_location(profile, &location, &line, 1, ret_location);
}

static int add_stack(struct profile *profile, const char *process, const char *const *frames,
		     int64_t value)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t locations[4], series, stack;
	uint32_t count = 0;
	int rc = labels_set(&labels, LABEL_PROCESS, process);

	while (count < 4 && frames[count])
		count++;
	for (uint32_t i = 0; rc == 0 && i < count; i++) // leaf first
		rc = add_frame(profile, frames[i], &locations[count - 1 - i]);
	if (rc == 0)
		rc = profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series);
	if (rc == 0)
		rc = profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack);
	return rc < 0 ? rc : profile_add_sample(profile, series, stack, 0, value);
}

int main(void)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	int rc = profile ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(stacks); i++)
		rc = add_stack(profile, stacks[i].process, stacks[i].frames,
			       stacks[i].percent * 10000000);
	if (rc == 0)
		rc = svg_encode(profile, PROFILE_TYPE_CPU, "Known shares", &buffer);
	return rc == 0 && fwrite(buffer.bytes, 1, buffer.size, stdout) == buffer.size ? 0 : 1;
}
