// SPDX-License-Identifier: Apache-2.0
// Field offsets by version: debug offsets of real interpreters, and broken ones.

#include <errno.h>

#include "agent/python/python_layout.h"
#include "base/cleanup.h"
#include "tests/test.h"

/* The words of _Py_DebugOffsets after the cookie, up to the type objects', of builds for x86-64. */
static const struct {
	const char *what;
	uint64_t words[60];
	uint16_t minor, free_threaded;
	uint16_t state_frame, state_thread, frame_bytes, frame_owner, frame_tlbc;
	uint16_t code_instructions, code_tlbc, code_basicsize, interpreter_threads;
	uint16_t firstlineno, argcount, flags, kwonly; // in the code object
} builds[] = {
	{ "3.13.0",
	  { 0x30d00f0, 0,    283320, 608,  632,  194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648,
	    16,        7752, 0,      7768, 7760, 304,    0,    8,    16,   72,   152,  160,  232,
	    32,        80,   8,      0,    56,   72,     70,   208,  112,  120,  128,  136,  68,
	    52,        96,   104,    200,  16,   8,      416,  24,   88,   168 },
	  13,
	  0,
	  72,
	  152,
	  72,
	  70,
	  PYTHON_NO_FIELD,
	  200,
	  PYTHON_NO_FIELD,
	  200,
	  7344,
	  68,
	  52,
	  48,
	  60 },
	{ "3.13.5 without the GIL",
	  { 0x30d05f0, 1,    328320, 608,  632,  215616, 7272, 7264, 7344, 7400, 7664, 7648, 7656,
	    16,        7760, 0,      7784, 7776, 304,    0,    8,    16,   72,   152,  160,  232,
	    32,        80,   8,      0,    56,   72,     70,   224,  128,  136,  144,  152,  84,
	    68,        112,  120,    216,  32,   24,     432,  40,   104,  184 },
	  13,
	  1,
	  72,
	  152,
	  72,
	  70,
	  PYTHON_NO_FIELD,
	  216,
	  PYTHON_NO_FIELD,
	  216,
	  7344,
	  84,
	  68,
	  64,
	  76 },
	{ "3.14.10",
	  { 0x30e0af0, 0,    316616, 784, 808,  225864, 7280, 7272, 7344, 7360, 7408,
	    7688,      7672, 7680,   16,  7784, 0,      7800, 7792, 7992, 0,    832,
	    0,         8,    16,     72,  152,  160,    232,  32,   88,   8,    0,
	    56,        80,   74,     64,  0,    216,    112,  120,  128,  136,  68,
	    52,        96,   104,    208, 0,    16,     8,    416,  24,   88,   168 },
	  14,
	  0,
	  72,
	  152,
	  80,
	  74,
	  PYTHON_NO_FIELD,
	  208,
	  PYTHON_NO_FIELD,
	  208,
	  7344,
	  68,
	  52,
	  48,
	  60 },
	{ "3.15.2",
	  { 0x30f02f0, 0,    346568, 912,  936, 226240, 7272, 7264, 7336, 7352, 7400, 7592,
	    7576,      7584, 16,     7736, 0,   7752,   7744, 7944, 0,    888,  0,    8,
	    16,        72,   80,     88,   96,  176,    184,  256,  32,   36,   40,   136,
	    288,       0,    88,     8,    0,   56,     80,   74,   64,   0,    216,  112,
	    120,       128,  136,    68,   52,  96,     104,  208,  0,    16,   8,    424 },
	  15,
	  0,
	  72,
	  176,
	  80,
	  74,
	  PYTHON_NO_FIELD,
	  208,
	  PYTHON_NO_FIELD,
	  208,
	  7336,
	  68,
	  52,
	  48,
	  60 },
	{ "3.14 without the GIL: threads have copies of the code",
	  { 0x30e0af0, 1,    360000, 784, 808,  225864, 7280, 7272, 7344, 7360, 7408,
	    7688,      7672, 7680,   16,  7784, 0,      7800, 7792, 7992, 8000, 832,
	    0,         8,    16,     72,  152,  160,    232,  32,   88,   8,    0,
	    56,        80,   78,     64,  72,   240,    128,  136,  144,  152,  84,
	    68,        112,  120,    232, 224,  32,     24,   432,  40,   104,  184 },
	  14,
	  1,
	  72,
	  152,
	  80,
	  78,
	  72,
	  232,
	  224,
	  232,
	  7344,
	  84,
	  68,
	  64,
	  76 },
};

struct image {
	char cookie[8];
	uint64_t words[PYTHON_DEBUG_OFFSETS_BYTES / 8 - 1];
};

static struct image image_of(const uint64_t *words, size_t count)
{
	struct image image = { .cookie = "xdebugpy" };

	memcpy(image.words, words, count * sizeof(*words));
	return image;
}

TEST(reads_debug_offsets_of_real_builds)
{
	for EACH (build, builds) {
		struct image image = image_of(build->words, ARRAY_SIZE(build->words));
		struct python_layout layout;
		struct error err = { 0 };
		const struct python_offsets *offsets = &layout.offsets;

		EXPECT_EQ(0, python_layout_of_debug_offsets(&image, sizeof(image), &layout, &err),
			  build->what);
		EXPECT_EQ(build->minor, offsets->minor, build->what);
		EXPECT_EQ(build->free_threaded, offsets->free_threaded, build->what);
		EXPECT_EQ(PYTHON_ENTRY_SHIM, offsets->entry, build->what);
		EXPECT_EQ(PYTHON_NO_FIELD, offsets->state_cframe, build->what);
		EXPECT_EQ(build->state_frame, offsets->state_frame, build->what);
		EXPECT_EQ(build->state_thread, offsets->state_thread, build->what);
		EXPECT_EQ(build->frame_bytes, offsets->frame_bytes, build->what);
		EXPECT_EQ(8, offsets->frame_previous, build->what);
		EXPECT_EQ(0, offsets->frame_code, build->what);
		EXPECT_EQ(56, offsets->frame_position, build->what);
		EXPECT_EQ(build->frame_owner, offsets->frame_owner, build->what);
		EXPECT_EQ(build->frame_tlbc, offsets->frame_tlbc, build->what);
		EXPECT_EQ(build->free_threaded ? 24 : 8, offsets->code_start, build->what);
		EXPECT_EQ(build->firstlineno, offsets->code_start + offsets->code_firstlineno,
			  build->what);
		EXPECT_EQ(build->argcount, offsets->code_start + offsets->code_argcount,
			  build->what);
		EXPECT_EQ(build->flags, offsets->code_start + offsets->code_flags, build->what);
		EXPECT_EQ(build->kwonly, offsets->code_start + offsets->code_kwonlyargcount,
			  build->what);
		EXPECT_EQ(build->code_instructions, offsets->code_instructions, build->what);
		EXPECT_EQ(build->code_tlbc, offsets->code_tlbc, build->what);
		EXPECT_EQ(build->code_basicsize, layout.code_basicsize, build->what);
		EXPECT_EQ(build->free_threaded ? 48 : 32, layout.type_basicsize, build->what);
		EXPECT_EQ(build->interpreter_threads, offsets->interpreter_threads, build->what);
		EXPECT_EQ(build->minor >= 14 ? 3 : 0, offsets->reference_tag_bits, build->what);
	}
}

/* Of 3.13.0: the words that hold a size or an offset that we use. */
enum { RUNTIME_INTERPRETERS = 4, STATE = 18, FRAME = 27, CODE = 33, OBJECT = 43 };

static const struct {
	const char *what;
	uint32_t at; // of the words after the cookie
	uint64_t word;
	int rc;
} broken[] = {
	{ "3.12 has no debug offsets", 0, 0x30c00f0, -ENOTSUP },
	{ "Python 4", 0, 0x40000f0, -ENOTSUP },
	{ "no version", 0, 0, -ENOTSUP },
	{ "interpreters far away", RUNTIME_INTERPRETERS, 1ULL << 40, -ENOTSUP },
	{ "a thread state of no size", STATE, 0, -ENOTSUP },
	{ "a thread state that is huge", STATE, ~0ULL, -ENOTSUP },
	{ "a list of threads with other links", STATE + 2, 24, -ENOTSUP },
	{ "a frame beyond the thread state", STATE + 4, 304, -ENOTSUP },
	{ "a frame of no size", FRAME, 0, -ENOTSUP },
	{ "a frame larger than we read", FRAME, 4096, -ENOTSUP },
	{ "a previous frame outside of the frame", FRAME + 1, 80, -ENOTSUP },
	{ "a previous frame that wraps", FRAME + 1, ~0ULL - 7, -ENOTSUP },
	{ "an odd place of the code", FRAME + 2, 3, -ENOTSUP },
	{ "locals that begin elsewhere", FRAME + 4, 64, -ENOTSUP },
	{ "an owner among the locals", FRAME + 5, 72, -ENOTSUP },
	{ "a name before the file name", CODE + 2, 96, -ENOTSUP },
	{ "a first line beyond what is read", CODE + 5, 200, -ENOTSUP },
	{ "a first line in the object's head", CODE + 5, 4, -ENOTSUP },
	{ "arguments beyond what is read", CODE + 6, 88, -ENOTSUP },
	{ "arguments that wrap", CODE + 6, ~0ULL, -ENOTSUP },
	{ "instructions outside of the object", CODE + 9, 4096, -ENOTSUP },
	{ "a type before the object", OBJECT + 1, 800, -ENOTSUP },
	{ "another free-threaded flag does no harm", 1, 7, 0 },
};

TEST(refuses_broken_debug_offsets)
{
	for EACH (row, broken) {
		struct image image = image_of(builds[0].words, ARRAY_SIZE(builds[0].words));
		struct python_layout layout;
		struct error err = { 0 };

		image.words[row->at] = row->word;
		EXPECT_EQ(row->rc,
			  python_layout_of_debug_offsets(&image, sizeof(image), &layout, &err),
			  row->what);
		EXPECT_EQ(row->rc, err.code, row->what);
	}
}

TEST(reads_debug_offsets_to_their_end_only)
{
	struct image image = image_of(builds[0].words, ARRAY_SIZE(builds[0].words));

	for (size_t size = 0; size <= sizeof(image); size++) {
		// A copy of just that size, for the sanitizer to watch.
		_cleanup_free_ uint8_t *bytes = malloc(size + !size);
		struct python_layout layout;
		struct error err = { 0 };

		memcpy(bytes, &image, size);
		int rc = python_layout_of_debug_offsets(bytes, size, &layout, &err);

		assert_true(size < 8 + 45 * 8 ? rc < 0 : rc == 0 || size < 8 + 56 * 8);
	}
}

TEST(versions_before_313_have_no_cookie)
{
	struct image image = image_of(builds[0].words, ARRAY_SIZE(builds[0].words));
	struct python_layout layout;

	image.cookie[0] = 'X';
	assert_int_equal(-ENOENT,
			 python_layout_of_debug_offsets(&image, sizeof(image), &layout, NULL));
}

/* Bits of a real image flipped one by one: accepted offsets stay within bounds. */
TEST(flipped_bits_stay_within_bounds)
{
	for EACH (build, builds) {
		for (uint32_t bit = 0; bit < 60 * 64; bit++) {
			struct image image = image_of(build->words, ARRAY_SIZE(build->words));
			struct python_layout layout;
			const struct python_offsets *offsets = &layout.offsets;

			image.words[bit / 64] ^= 1ULL << bit % 64;
			if (python_layout_of_debug_offsets(&image, sizeof(image), &layout, NULL))
				continue;
			assert_true(offsets->frame_bytes <= PYTHON_FRAME_BYTES_MAX);
			assert_true(offsets->frame_previous + 8 <= offsets->frame_bytes);
			assert_true(offsets->frame_code + 8 <= offsets->frame_bytes);
			assert_true(offsets->frame_position + 8 <= offsets->frame_bytes);
			assert_true(offsets->frame_owner < offsets->frame_bytes);
			assert_true(offsets->frame_tlbc == PYTHON_NO_FIELD ||
				    offsets->frame_tlbc + 4 <= offsets->frame_bytes);
			assert_true(offsets->code_firstlineno + 4 <= PYTHON_CODE_BYTES);
			assert_true(offsets->code_kwonlyargcount + 4 <= PYTHON_CODE_BYTES);
			assert_true(offsets->code_flags + 4 <= PYTHON_CODE_BYTES);
		}
	}
}

TEST(versions_without_debug_offsets_have_layouts)
{
	struct python_layout layout;

	for (uint32_t minor = 0; minor < 20; minor++) {
		char what[16];

		snprintf(what, sizeof(what), "3.%u", minor);
		EXPECT_EQ(minor < 6 || minor > 12 ? -ENOTSUP : 0,
			  python_layout_of_version(minor, &layout), what);
		if (minor < 6 || minor > 12)
			continue;
		EXPECT_EQ(minor, layout.offsets.minor, what);
		assert_true(layout.offsets.frame_bytes <= PYTHON_FRAME_BYTES_MAX);
		assert_true(layout.offsets.frame_position + 4 <= layout.offsets.frame_bytes);
	}
}

RUN_TESTS(cmocka_unit_test(reads_debug_offsets_of_real_builds),
	  cmocka_unit_test(refuses_broken_debug_offsets),
	  cmocka_unit_test(reads_debug_offsets_to_their_end_only),
	  cmocka_unit_test(versions_before_313_have_no_cookie),
	  cmocka_unit_test(flipped_bits_stay_within_bounds),
	  cmocka_unit_test(versions_without_debug_offsets_have_layouts))
