// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/callee_saved.h"

#include "tests/unit/agent/unwind/table_text.h"

enum { CALLER_AT = 0x10, CALL_AT = 0x20, CALLEE_AT = 0x80, CALLEE_BYTES = 0x60 };

/* push %rbx; mov %rsp, %rbx; then the stack is aligned. */
static const uint8_t caller[] = { 0x41, 0x0e, 16, 0x80 | 3, 2, 0x43, 0x0d, 3 };

#define WITHOUT "0 none | 10 7+8 = c-8 | 11 7+16 = c-8 | 14 3+16 = c-8"

static const struct {
	const char *what;
	uint8_t callee[16];
	size_t size;
	int32_t into; // the call leads so far into the callee
	const char *rows;
} cases[] = {
	{ "a callee that saves it at once",
	  { 0x42, 0x0e, 16, 0x80 | 3, 2 },
	  5,
	  0,
	  WITHOUT " | 24 *7-16+16 = c-8 | 25 3+16 = c-8 | 40 none" },
	{ "behind others, and the stack grows",
	  { 0x42, 0x0e, 40, 0x80 | 3, 5, 0x80 | 12, 4, 0x48, 0x0e, 64 },
	  10,
	  0,
	  WITHOUT " | 24 *7-40+16 = c-8 | 25 3+16 = c-8 | 40 none" },
	{ "one that does not save it", { 0x42, 0x0e, 16 }, 3, 0, WITHOUT " | 40 none" },
	{ "one that saves another one",
	  { 0x42, 0x0e, 16, 0x80 | 12, 2 },
	  5,
	  0,
	  WITHOUT " | 40 none" },
	{ "one that saves it only on some of its ways",
	  { 0x42, 0x0e, 16, 0x80 | 3, 2, 0x48, 0xc0 | 3 },
	  7,
	  0,
	  WITHOUT " | 40 none" },
	{ "one that saves it late", { 0x40 | 0x3f, 0x80 | 3, 2 }, 3, 0, WITHOUT " | 40 none" },
	{ "bytes that lead into a function, and are no call",
	  { 0x42, 0x0e, 16, 0x80 | 3, 2 },
	  5,
	  4,
	  WITHOUT " | 40 none" },
};

TEST(reads_rbx_where_the_callee_saved_it)
{
	for EACH (c, cases) {
		int32_t distance = CALLEE_AT + c->into - CALL_AT - 5;
		struct cfi_image image;

		cfi_image_init(&image, EM_X86_64, ".eh_frame");
		cfi_image_put_usual_common(&image);
		cfi_image_put_function(&image, CALLER_AT, 0x30, caller, sizeof(caller));
		cfi_image_put_function(&image, CALLEE_AT, CALLEE_BYTES, c->callee, c->size);
		image.text[CALL_AT] = 0xe8;
		memcpy(image.text + CALL_AT + 1, &distance, sizeof(distance));
		expect_rows(c->rows, &image, CALLEE_AT, c->what);
	}
}

TEST(keeps_rows_after_a_call)
{
	static const uint8_t ends[] = {
		0x41, 0x0e, 16, 0x80 | 3, 2, 0x43, 0x0d, 3, 0x51, 0x0c, 7, 8
	};
	static const uint8_t saves[] = { 0x42, 0x0e, 16, 0x80 | 3, 2 };
	const int32_t distance = CALLEE_AT - CALL_AT - 5;
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, CALLER_AT, 0x30, ends, sizeof(ends));
	cfi_image_put_function(&image, CALLEE_AT, CALLEE_BYTES, saves, sizeof(saves));
	image.text[CALL_AT] = 0xe8;
	memcpy(image.text + CALL_AT + 1, &distance, sizeof(distance));
	// The call is the last instruction that rbx holds for.
	expect_rows(WITHOUT " | 24 *7-16+16 = c-8 | 25 7+8 = c-8 | 40 none", &image, CALLEE_AT,
		    "a row that begins behind the call");
}

TEST(overlapping_callers_keep_their_own_calls)
{
	static const uint8_t saves[] = { 0x42, 0x0e, 16, 0x80 | 3, 2 };
	const int32_t distance = CALLEE_AT - CALL_AT - 5;
	struct cfi_image image;

	cfi_image_init(&image, EM_X86_64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, CALLER_AT, 0x30, caller, sizeof(caller));
	cfi_image_put_function(&image, CALLER_AT + 4, 0x30, caller, sizeof(caller));
	cfi_image_put_function(&image, CALLEE_AT, CALLEE_BYTES, saves, sizeof(saves));
	image.text[CALL_AT] = 0xe8;
	memcpy(image.text + CALL_AT + 1, &distance, sizeof(distance));
	expect_rows(WITHOUT " | 24 *7-16+16 = c-8 | 25 3+16 = c-8 | 44 none", &image, CALLEE_AT,
		    "the second reaches beyond the first");
}

RUN_TESTS(cmocka_unit_test(reads_rbx_where_the_callee_saved_it),
	  cmocka_unit_test(keeps_rows_after_a_call),
	  cmocka_unit_test(overlapping_callers_keep_their_own_calls))
