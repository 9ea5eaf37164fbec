// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/gpu_spin.h"

#include <stdlib.h>

#include "tests/test.h"

#define DRIVER "/usr/lib/x86_64-linux-gnu/libcuda.so.535.309.01"

/** Leaf first: "module:name", by "|". */
static const struct {
	const char *what;
	const char *stack;
	bool is_spin;
} cases[] = {
	{ "the loop itself", DRIVER ":|" DRIVER ":cuStreamSynchronize|/app:wait|/app:main", true },
	{ "in the call", DRIVER ":cuCtxSynchronize|libcudart.so.12:|/app:main", true },
	{ "the kernel below",
	  "[kernel]:sched_yield|libc.so.6:sched_yield|" DRIVER ":|" DRIVER
	  ":cuEventSynchronize|/app:main",
	  true },
	{ "a variant", DRIVER ":cuStreamSynchronize_ptsz|/app:main", true },
	{ "a copy that waits", DRIVER ":|" DRIVER ":cuMemcpyDtoH_v2|/app:main", true },
	{ "one that is called asynchronous", DRIVER ":|" DRIVER ":cuMemcpyDtoHAsync_v2|/app:main",
	  true },
	{ "one between devices", DRIVER ":|" DRIVER ":cuMemcpyDtoDAsync_v2|/app:main", false },
	{ "a launch", DRIVER ":|" DRIVER ":cuLaunchKernel|/app:main", false },
	{ "unnamed driver code", DRIVER ":|/app:main", false },
	{ "a callback of the driver's", "/app:callback|" DRIVER ":cuStreamSynchronize|/app:main",
	  true },
	{ "a launch within a wait of another layer's",
	  DRIVER ":cuLaunchKernel|/app:cuStreamSynchronize|/app:main", false },
	{ "another library's function", "/lib/libcudart.so.12:cuStreamSynchronize|/app:main",
	  false },
	{ "a name that goes on", DRIVER ":cuMemcpyDtoHSomehow|/app:main", false },
	{ "no driver", "libm.so.6:exp|/app:main", false },
	{ "nothing", "", false },
};

static struct stack *add_stack(struct profile *profile, const char *text)
{
	char *copy = strdup(text), *rest = copy, *frame;
	uint32_t locations[16], count = 0, stack;

	while (*text && (frame = strsep(&rest, "|"))) {
		struct location location = { .kind = FRAME_KIND_NATIVE, .offset = count };
		char *name = strrchr(frame, ':');
		struct line line = { 0 };

		*name++ = 0;
		location.id = id128_of(frame, strlen(frame));
		location.id.low += count + 1;
		EXPECT_EQ(0, profile_add_string(profile, frame, &location.module), frame);
		EXPECT_EQ(0, profile_add_string(profile, name, &line.name), name);
		EXPECT_EQ(0,
			  profile_add_location(profile, &location, &line, *name ? 1 : 0,
					       &locations[count++]),
			  frame);
	}
	EXPECT_EQ(0, profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack),
		  text);
	free(copy);
	return &profile->stacks[stack];
}

TEST(only_blocking_driver_calls_are_busy_waits)
{
	for EACH (c, cases) {
		struct profile *profile = profile_new(20000000);

		EXPECT_EQ(c->is_spin, gpu_spin_is(profile, add_stack(profile, c->stack)), c->what);
		profile_free(profile);
	}
}

RUN_TESTS(cmocka_unit_test(only_blocking_driver_calls_are_busy_waits))
