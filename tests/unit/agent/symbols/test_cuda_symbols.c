// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/cuda_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/symbols/file_symbols.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/section_file.h"

#if defined(__x86_64__)

/* Where things lie in the code's segment, from its beginning. */
enum { STUB_AT = 0x100, CODE_AT = 0x200, FRAME_AT = 0x300, SLOT_AT = 0x900, CODE_BYTES = 64 };

/* A driver of one export, as NVIDIA's linker lays it out. */
struct driver {
	uint8_t stub[18];
	Elf64_Sym symbols[3];
	Elf64_Rela relocation;
	struct {
		uint8_t kinds[4];
		int32_t pointer;
		uint32_t count;
		int32_t function, frame;
	} header;
	uint32_t frame[4]; // length, CIE, function relative to itself, bytes
};

#define HEADER_ADDRESS 0x500000

static void driver_init(struct driver *driver)
{
	static const uint8_t stub[18] = { 0x81, 0x3d, 1,    2,    3,    4, 0x00, 0xba, 0x1c,
					  0x32, 0x74, 0x0c, 0xff, 0x25, 0, 0,    0,    0 };
	int32_t distance = SLOT_AT - (STUB_AT + 18);

	memset(driver, 0, sizeof(*driver));
	memcpy(driver->stub, stub, sizeof(stub));
	memcpy(driver->stub + 14, &distance, sizeof(distance));
	driver->symbols[1] = (Elf64_Sym){ .st_name = 1,
					  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					  .st_shndx = 1,
					  .st_value = SECTION_FILE_ADDRESS + STUB_AT,
					  .st_size = 32 };
	driver->symbols[2] = driver->symbols[1]; // not defined here: not an export
	driver->symbols[2].st_shndx = SHN_UNDEF;
	driver->relocation = (Elf64_Rela){ .r_offset = SECTION_FILE_ADDRESS + SLOT_AT,
					   .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE),
					   .r_addend = SECTION_FILE_ADDRESS + CODE_AT };
	driver->header.kinds[0] = 1;
	driver->header.kinds[1] = 0x1b;
	driver->header.kinds[2] = 0x03;
	driver->header.kinds[3] = 0x3b;
	driver->header.count = 1;
	driver->header.function = SECTION_FILE_ADDRESS + CODE_AT - HEADER_ADDRESS;
	driver->header.frame = SECTION_FILE_ADDRESS + FRAME_AT - HEADER_ADDRESS;
	driver->frame[0] = 16;
	driver->frame[2] = (uint32_t)(CODE_AT - (FRAME_AT + 8));
	driver->frame[3] = CODE_BYTES;
}

static int driver_open(const struct driver *driver)
{
	struct section_file file;

	section_file_new(&file);
	section_file_put(&file, SECTION_FILE_TEXT + STUB_AT, driver->stub, sizeof(driver->stub));
	section_file_put(&file, SECTION_FILE_TEXT + FRAME_AT, driver->frame, sizeof(driver->frame));
	Elf64_Shdr *section = section_file_add(&file, ".dynsym", SHT_DYNSYM, driver->symbols,
					       sizeof(driver->symbols));
	section->sh_entsize = sizeof(Elf64_Sym);
	section->sh_link = file.count;
	section_file_add(&file, ".dynstr", SHT_STRTAB, "\0cuStreamSynchronize", 21);
	section_file_add(&file, ".rela.dyn", SHT_RELA, &driver->relocation,
			 sizeof(driver->relocation));
	section = section_file_add(&file, ".eh_frame_hdr", SHT_PROGBITS, &driver->header,
				   sizeof(driver->header));
	section->sh_addr = HEADER_ADDRESS;
	return section_file_close(&file);
}

struct found {
	uint32_t count;
	struct cuda_symbol last;
};

static int keep(void *context, const struct cuda_symbol *symbol)
{
	struct found *found = context;

	found->count++;
	found->last = *symbol;
	return 0;
}

TEST(a_slots_target_gets_the_exports_name)
{
	struct found found = { 0 };
	struct driver driver;
	char name[32];

	driver_init(&driver);
	int fd = driver_open(&driver);
	struct elf elf = section_file_read(fd);
	assert_int_equal(0, cuda_symbols_read(&elf, keep, &found));
	assert_int_equal(1, found.count);
	assert_int_equal(SECTION_FILE_ADDRESS + CODE_AT, found.last.address);
	assert_int_equal(CODE_BYTES, found.last.size);
	assert_true(pread(fd, name, sizeof(name), (off_t)found.last.name_offset) > 0);
	assert_string_equal("cuStreamSynchronize", name);
	close(fd);
}

TEST(exports_may_share_a_slot)
{
	struct found found = { 0 };
	struct driver driver;

	driver_init(&driver);
	driver.symbols[2].st_shndx = 1;
	driver.symbols[2].st_name = 3;
	int fd = driver_open(&driver);
	struct elf elf = section_file_read(fd);
	assert_int_equal(0, cuda_symbols_read(&elf, keep, &found));
	assert_int_equal(2, found.count);
	assert_int_equal(SECTION_FILE_ADDRESS + CODE_AT, found.last.address);
	close(fd);
}

TEST(reads_slots_of_the_driver_only)
{
	static const struct {
		const char *path;
		bool named;
	} rows[] = {
		{ "/usr/lib/libcuda.so.1", true },
		{ "libcuda.so.535.261.03", true },
		{ "/usr/lib/libcudart.so.12", false },
	};

	for EACH (row, rows) {
		const struct debug_file_search search = { .path = row->path,
							  .folders = { -1, -1, -1 } };
		struct file_symbols symbols;
		struct symbol_range range;
		struct driver driver;
		char name[SYMBOL_NAME_BYTES] = "(none)";

		driver_init(&driver);
		int fd = driver_open(&driver);
		assert_int_equal(0, file_symbols_read(fd, &search, -1, &symbols));
		if (symbol_table_find(symbols.table, SECTION_FILE_TEXT + CODE_AT + CODE_BYTES - 1,
				      &range) == 0)
			file_symbols_read_name(&symbols, fd, range.index, name);
		EXPECT_STR(row->named ? "cuStreamSynchronize" : "(none)", name, row->path);
		// What follows is another function's.
		EXPECT_EQ(-ENOENT,
			  symbol_table_find(symbols.table, SECTION_FILE_TEXT + CODE_AT + CODE_BYTES,
					    &range),
			  row->path);
		file_symbols_deinit(&symbols);
		close(fd);
	}
}

static void other_code(struct driver *driver)
{
	driver->stub[0] = 0xf3; // endbr64 and the like
}
static void slot_never_filled(struct driver *driver)
{
	driver->relocation.r_offset += 8;
}
static void slot_filled_by_name(struct driver *driver)
{
	driver->relocation.r_info = ELF64_R_INFO(1, R_X86_64_64);
}
static void code_in_a_function(struct driver *driver)
{
	driver->relocation.r_addend += 1;
}
static void code_without_frame(struct driver *driver)
{
	driver->header.count = 0;
}
static void frames_without_end(struct driver *driver)
{
	driver->header.count = UINT32_MAX;
}
static void frame_nowhere(struct driver *driver)
{
	driver->header.frame = INT32_MIN;
}
static void frame_of_another(struct driver *driver)
{
	driver->frame[2]++;
}
static void name_nowhere(struct driver *driver)
{
	driver->symbols[1].st_name = UINT32_MAX;
}
static void stub_nowhere(struct driver *driver)
{
	driver->symbols[1].st_value = UINT64_MAX - 3;
}

TEST(exports_of_other_shapes_stay_unnamed)
{
	static const struct {
		const char *what;
		void (*damage)(struct driver *driver);
	} rows[] = {
		{ "other code", other_code },
		{ "slot never filled", slot_never_filled },
		{ "slot filled by name", slot_filled_by_name },
		{ "code in a function", code_in_a_function },
		{ "code without frame", code_without_frame },
		{ "frames without end", frames_without_end },
		{ "frame nowhere", frame_nowhere },
		{ "frame of another", frame_of_another },
		{ "name nowhere", name_nowhere },
		{ "stub nowhere", stub_nowhere },
	};

	for EACH (row, rows) {
		struct found found = { 0 };
		struct driver driver;

		driver_init(&driver);
		row->damage(&driver);
		int fd = driver_open(&driver);
		struct elf elf = section_file_read(fd);
		cuda_symbols_read(&elf, keep, &found);
		EXPECT_EQ(0, found.count, row->what);
		close(fd);
	}
}

TEST(survives_random_damage)
{
	srandom(3);
	for (int round = 0; round < 3000; round++) {
		struct found found = { 0 };
		struct driver driver;

		driver_init(&driver);
		for (int i = 0; i < 3; i++)
			((uint8_t *)&driver)[random() % (long)sizeof(driver)] = (uint8_t)random();
		int fd = driver_open(&driver);
		struct elf elf = section_file_read(fd);
		cuda_symbols_read(&elf, keep, &found);
		close(fd);
	}
}

RUN_TESTS(cmocka_unit_test(a_slots_target_gets_the_exports_name),
	  cmocka_unit_test(exports_may_share_a_slot),
	  cmocka_unit_test(reads_slots_of_the_driver_only),
	  cmocka_unit_test(exports_of_other_shapes_stay_unnamed),
	  cmocka_unit_test(survives_random_damage))

#else

TEST(skips_drivers_of_other_architectures)
{
	SKIP("only the x86-64 driver's shape is known");
}

RUN_TESTS(cmocka_unit_test(skips_drivers_of_other_architectures))

#endif
