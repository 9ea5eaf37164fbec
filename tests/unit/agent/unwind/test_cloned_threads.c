// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cloned_threads.h"

#include "base/cleanup.h"
#include "tests/unit/agent/unwind/table_text.h"

/* As in glibc: svc #0; cmp x0, #0; b.eq (the new thread); b.lt (failed); ret */
static const uint8_t returning[] = { 0x01, 0,    0, 0xd4, 0x1f, 0,    0,    0xf1, 0,    0,
				     0,    0x54, 0, 0,    0,    0x54, 0xc0, 0x03, 0x5f, 0xd6 };
static const uint8_t begins[] = { 0x07, 30 }; // DW_CFA_undefined: x30

enum { CLONE = 0x40, CALL = 0x54, CLONE_BYTES = 0x2c, THREAD = 0x70, THREAD_BYTES = 0x10 };

static const struct {
	const char *what;
	int32_t jump; // to there
	uint8_t cfi[32];
	uint32_t cfi_size;
	bool begins_thread;
	const char *rows;
} files[] = {
	{ "glibc's",
	  THREAD,
	  {},
	  0,
	  true,
	  "0 none | 40 31+0 = = | 54 31+0 = =! | 70 end | 80 none" },
	{ "rows before and behind",
	  THREAD,
	  { 0x41, 0x0e, 16, 0x46, 0x0e, 0 },
	  6,
	  true,
	  "0 none | 40 31+0 = = | 44 31+16 = = | 54 31+16 = =! | 5c 31+0 = =! | "
	  "70 end | 80 none" },
	{ "too many rows",
	  THREAD,
	  { 0x41, 0x0e, 16, 0x41, 0x0e, 0, 0x41, 0x0e, 16, 0x41, 0x0e, 0,
	    0x41, 0x0e, 16, 0x41, 0x0e, 0, 0x41, 0x0e, 16, 0x41, 0x0e, 0 },
	  24,
	  true,
	  "0 none | 40 31+0 = = | 44 31+16 = = | 48 31+0 = = | 4c 31+16 = = | 50 31+0 = = | "
	  "54 31+16 = = | 58 31+0 = = | 5c 31+16 = = | 60 31+0 = = | 70 end | 80 none" },
	{ "a jump into itself", CLONE, {}, 0, true, "0 none | 40 31+0 = = | 70 end | 80 none" },
	{ "no thread begins behind it", THREAD, {}, 0, false, "0 none | 40 31+0 = = | 80 none" },
};

TEST(marks_where_clone_returns)
{
	struct cfi_image image;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		uint32_t distance = (uint32_t)(files[i].jump - (CALL + 8)) / 4 & 0x7ffff;

		cfi_image_init(&image, EM_AARCH64, ".eh_frame");
		cfi_image_put_usual_common(&image);
		cfi_image_put_function(&image, CLONE, CLONE_BYTES, files[i].cfi, files[i].cfi_size);
		cfi_image_put_function(&image, THREAD, THREAD_BYTES, begins,
				       files[i].begins_thread ? sizeof(begins) : 0);
		memcpy(image.text + CALL, returning, sizeof(returning));
		distance = distance << 5 | 0x54000000;
		memcpy(image.text + CALL + 8, &distance, sizeof(distance));
		expect_rows(files[i].rows, &image, 0x100, files[i].what);
	}
}

/* The code is hostile: a function as long as a file, or past its end. */
TEST(leaves_large_functions_alone)
{
	struct cfi_image image;

	cfi_image_init(&image, EM_AARCH64, ".eh_frame");
	cfi_image_put_usual_common(&image);
	cfi_image_put_function(&image, 0x40, 0x200, NULL, 0);
	cfi_image_put_function(&image, 0x240, 0x10, begins, sizeof(begins));
	cfi_image_put_function(&image, CFI_TEXT_BYTES - 0x20, 0x40, NULL, 0);
	cfi_image_put_function(&image, CFI_TEXT_BYTES + 0x20, 0x10, begins, sizeof(begins));
	expect_rows("0 none | 40 31+0 = = | 240 end | 250 none", &image, 0x300, "both");
}

RUN_TESTS(cmocka_unit_test(marks_where_clone_returns),
	  cmocka_unit_test(leaves_large_functions_alone))
