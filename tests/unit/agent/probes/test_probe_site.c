// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_site.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/gpu/gpu_calls.h"
#include "base/cleanup.h"
#include "tests/gpu/load_double.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/section_file.h"

#if defined(__x86_64__)

#define EXPENSIVE (-1) // the first instruction, for want of a better one

TEST(picks_the_first_emulated_instruction)
{
	static const struct {
		const char *what;
		uint8_t code[24];
		size_t size;
		int skip;
	} rows[] = {
		{ "an export of the driver",
		  { 0x81, 0x3d, 1, 2, 3, 4, 0, 0xba, 0x1c, 0x32, 0x74, 12, 0xff, 0x25, 1, 2, 3, 4 },
		  18,
		  10 },
		{ "the same built for CET",
		  { 0xf3, 0x0f, 0x1e, 0xfa, 0x81, 0x3d, 1, 2, 3, 4, 0, 0xba, 0x1c, 0x32, 0x74, 12 },
		  16,
		  14 },
		{ "push", { 0x55, 0x48, 0x89, 0xe5 }, 4, 0 },
		{ "push of r15", { 0x41, 0x57, 0x41, 0x56 }, 4, 0 },
		{ "CET and push", { 0xf3, 0x0f, 0x1e, 0xfa, 0x55 }, 5, 4 },
		{ "nop", { 0x90, 0xc3 }, 2, 0 },
		{ "long nop, then push", { 0x0f, 0x1f, 0x44, 0, 0, 0x55 }, 6, 5 },
		{ "jmp of 8 bits", { 0xeb, 0x10 }, 2, 0 },
		{ "jmp of 32 bits", { 0xe9, 0, 1, 0, 0 }, 5, 0 },
		{ "call", { 0xe8, 0, 1, 0, 0 }, 5, 0 },
		{ "test, jne of 32 bits", { 0x48, 0x85, 0xff, 0x0f, 0x85, 0, 1, 0, 0 }, 9, 3 },
		{ "mov to rax, push", { 0x48, 0x89, 0xf8, 0x55 }, 4, 3 },
		{ "mov to r10d, jmp", { 0x41, 0xba, 1, 0, 0, 0, 0xeb, 0 }, 8, 6 },
		{ "sub of rsp before push", { 0x48, 0x83, 0xec, 8, 0x55 }, 5, EXPENSIVE },
		{ "mov to rdi before push", { 0x48, 0x89, 0xf7, 0x55 }, 4, EXPENSIVE },
		{ "xor of ecx before push", { 0x31, 0xc9, 0x55 }, 3, EXPENSIVE },
		{ "mov to r8b before push", { 0x41, 0xb0, 1, 0x55 }, 4, EXPENSIVE },
		{ "mov to memory before push",
		  { 0x48, 0x89, 0x7c, 0x24, 0xf8, 0x55 },
		  6,
		  EXPENSIVE },
		{ "pop before push", { 0x58, 0x55 }, 2, EXPENSIVE },
		{ "return before push", { 0xc3, 0x55 }, 2, EXPENSIVE },
		{ "indirect jump before push", { 0xff, 0x25, 0, 0, 0, 0, 0x55 }, 7, EXPENSIVE },
		{ "system call before push", { 0x0f, 0x05, 0x55 }, 3, EXPENSIVE },
		{ "xchg of r8 is no nop", { 0x41, 0x90, 0xc3 }, 3, EXPENSIVE },
		{ "push with a prefix", { 0x66, 0x55, 0xc3 }, 3, EXPENSIVE },
		{ "jmp with a prefix", { 0xf2, 0xe9, 0, 1, 0, 0 }, 6, EXPENSIVE },
		{ "a loop back to the site",
		  { 0x48, 0x85, 0xff, 0x74, 4, 0x48, 0xff, 0xcf, 0xeb, 0xf9, 0xc3 },
		  11,
		  EXPENSIVE },
		{ "a tail call of itself, which is a call",
		  { 0x85, 0xff, 0x74, 2, 0xeb, 0xfa, 0xc3 },
		  7,
		  2 },
		{ "cut in the first instruction", { 0x81, 0x3d, 1 }, 3, -ENOEXEC },
		{ "cut in the second", { 0x85, 0xff, 0x0f, 0x85 }, 4, EXPENSIVE },
		{ "no instruction", { 0x06 }, 1, -ENOEXEC },
		{ "nothing", { 0 }, 0, -ENOEXEC },
	};

	for EACH (row, rows) {
		struct probe_site site = { 0 };
		int rc = probe_site_choose(row->code, row->size, &site);

		if (row->skip < EXPENSIVE) {
			EXPECT_EQ(row->skip, rc, row->what);
			continue;
		}
		EXPECT_EQ(0, rc, row->what);
		EXPECT_EQ(row->skip == EXPENSIVE, site.is_expensive, row->what);
		EXPECT_EQ(row->skip == EXPENSIVE ? 0 : row->skip, site.skip, row->what);
	}
}

TEST(searches_a_bounded_part_of_code)
{
	static uint8_t code[2 * PROBE_SITE_LOOP_MAX];
	struct probe_site site;

	// test %edi,%edi for ever; then a jump, too late.
	for (size_t i = 0; i + 1 < sizeof(code); i += 2)
		memcpy(code + i, "\x85\xff", 2);
	code[PROBE_SITE_BYTES + 2] = 0x55;
	assert_int_equal(0, probe_site_choose(code, sizeof(code), &site));
	assert_true(site.is_expensive);
	assert_int_equal(0, site.skip);
}

// ---- files ----------------------------------------------------------------------------------

static struct elf_symbols open_symbols(const char *name, struct elf *elf)
{
	char path[PATH_MAX];
	struct elf_symbols symbols;

	assert_non_null(double_path(name, path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	*elf = section_file_read(fd);
	assert_int_equal(0, elf_symbols_init(&symbols, elf));
	return symbols;
}

static void close_symbols(struct elf_symbols *symbols)
{
	close(symbols->elf->fd);
	elf_symbols_deinit(symbols);
}

TEST(finds_sites_in_each_export_shape)
{
	static const struct {
		const char *file;
		uint32_t skip;
	} rows[] = { { "libcuda.so.1", 10 },
		     { "shape1/libcuda.so.1", 14 },
		     { "shape2/libcuda.so.1", 0 } };
	static const char *const names[] = { "cuLaunchKernel", "cuLaunchKernel_ptsz",
					     "cuMemAlloc_v2", "cuStreamSynchronize" };

	for EACH (row, rows) {
		struct elf elf;
		struct elf_symbols symbols = open_symbols(row->file, &elf);

		for EACH (name, names) {
			struct probe_site site;
			Elf64_Sym symbol;

			EXPECT_EQ(0, elf_symbols_find_exported(&symbols, *name, &symbol), *name);
			EXPECT_EQ(0, probe_site_find(&symbols, *name, &site), row->file);
			EXPECT_EQ(row->skip, site.skip, row->file);
			EXPECT_EQ(false, site.is_expensive, row->file);
			const Elf64_Phdr *segment = elf_find_code(&elf, symbol.st_value);
			EXPECT_EQ(elf_file_offset(segment, symbol.st_value) + row->skip,
				  site.offset, row->file);
		}
		close_symbols(&symbols);
	}
}

TEST(refuses_symbols_outside_of_code)
{
	struct probe_site site;
	struct elf elf;
	struct elf_symbols symbols = open_symbols("libcuda.so.1", &elf);

	assert_int_equal(-ENOENT, probe_site_find(&symbols, "cuLaunchNothing", &site));
	// What it imports is not its own.
	assert_int_equal(-ENOENT, probe_site_find(&symbols, "pthread_mutex_lock", &site));
	close_symbols(&symbols);
}

/* A copy of the double, with something changed. */
static int copy_double(char bytes[1 << 20], size_t *ret_size)
{
	char path[PATH_MAX];
	int fd = memfd_create("copy", MFD_CLOEXEC);

	assert_non_null(double_path("libcuda.so.1", path));
	_cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC);
	*ret_size = (size_t)read(from, bytes, 1 << 20);
	assert_true(fd >= 0 && *ret_size > 4096 && *ret_size < 1 << 20);
	return fd;
}

static int find_in(int fd, struct probe_site *site)
{
	struct elf_symbols symbols;
	struct stat status;
	struct elf elf;

	assert_int_equal(0, fstat(fd, &status));
	int rc = elf_read_headers(fd, &status, &elf, NULL);
	if (!rc)
		rc = elf_symbols_init(&symbols, &elf);
	if (rc)
		return rc;
	rc = probe_site_find(&symbols, "cuLaunchKernel", site);
	elf_symbols_deinit(&symbols);
	return rc;
}

TEST(refuses_truncated_files_or_finds_the_site)
{
	static char bytes[1 << 20];
	struct probe_site whole, site;
	size_t size;
	_cleanup_close_ int fd = copy_double(bytes, &size);

	assert_int_equal(size, write(fd, bytes, size));
	assert_int_equal(0, find_in(fd, &whole));
	for (size_t cut = size; cut > 0; cut = cut > 1009 ? cut - 1009 : 0) {
		assert_int_equal(0, ftruncate(fd, (off_t)cut));
		if (find_in(fd, &site) == 0)
			assert_memory_equal(&whole, &site, sizeof(site));
	}
}

/* The value of the dynamic symbol cuLaunchKernel in @bytes, to be changed. */
static Elf64_Sym *symbol_in(char *bytes, size_t size)
{
	const Elf64_Ehdr *header = (const void *)bytes;
	const Elf64_Shdr *sections = (const void *)(bytes + header->e_shoff);

	assert_true(header->e_shoff + header->e_shnum * sizeof(*sections) <= size);
	for (int i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_type != SHT_DYNSYM)
			continue;
		Elf64_Sym *symbols = (void *)(bytes + sections[i].sh_offset);
		const char *names = bytes + sections[sections[i].sh_link].sh_offset;
		for (size_t j = 0; j < sections[i].sh_size / sizeof(*symbols); j++) {
			if (strcmp(names + symbols[j].st_name, "cuLaunchKernel") == 0)
				return &symbols[j];
		}
	}
	fail_msg("the double has no cuLaunchKernel");
	return NULL;
}

TEST(refuses_lying_symbols)
{
	static char bytes[1 << 20];
	static const struct {
		const char *what;
		uint64_t value, size;
		uint8_t type;
	} rows[] = {
		{ "outside of the file", 0x7fffffff0000, 32, STT_FUNC },
		{ "at the end of all addresses", UINT64_MAX - 3, 32, STT_FUNC },
		{ "in data", 0, 32, STT_FUNC }, // the ELF header: mapped, but not to be executed
		{ "an object", 0, 32, STT_OBJECT },
	};
	size_t size;
	_cleanup_close_ int fd = copy_double(bytes, &size);
	Elf64_Sym *symbol = symbol_in(bytes, size);
	const Elf64_Sym good = *symbol;

	for EACH (row, rows) {
		struct probe_site site;

		*symbol = good;
		symbol->st_value = row->type == STT_FUNC ? row->value : good.st_value;
		symbol->st_size = row->size;
		symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, row->type);
		assert_int_equal(size, pwrite(fd, bytes, size, 0));
		EXPECT_EQ(-ENOEXEC, find_in(fd, &site), row->what);
	}
	// A size that is a lie does not matter.
	struct probe_site site;
	*symbol = good;
	symbol->st_size = UINT64_MAX;
	assert_int_equal(size, pwrite(fd, bytes, size, 0));
	assert_int_equal(0, find_in(fd, &site));
	assert_int_equal(10, site.skip);
}

// ---- the real driver --------------------------------------------------------------------------

TEST(real_driver_exports_have_cheap_sites)
{
	static const char *const names[] = { "cuLaunchKernel",      "cuLaunchKernel_ptsz",
					     "cuLaunchKernelEx",    "cuGraphLaunch",
					     "cuStreamSynchronize", "cuEventSynchronize",
					     "cuMemAlloc_v2",       "cuMemcpyHtoDAsync_v2" };
	const char *path = getenv("CAIRN_LIBCUDA");
	struct elf_symbols symbols;
	struct elf elf;

	_cleanup_close_ int fd =
		open(path ? path : "/usr/lib/x86_64-linux-gnu/libcuda.so.1", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		SKIP("no libcuda.so.1 here: `make test-libcuda` fetches one");
	elf = section_file_read(fd);
	assert_int_equal(0, elf_symbols_init(&symbols, &elf));
	for EACH (name, names) {
		struct probe_site site;

		EXPECT_EQ(0, probe_site_find(&symbols, *name, &site), *name);
		EXPECT_EQ(false, site.is_expensive, *name);
	}
	elf_symbols_deinit(&symbols);
}

TEST(real_nccl_exports_have_cheap_sites)
{
	const char *path = getenv("CAIRN_LIBNCCL");
	struct elf_symbols symbols;
	struct elf elf;
	size_t count, found = 0;
	const struct gpu_call_symbol *rows = gpu_calls(&count);

	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		SKIP("no libnccl.so.2 here: CAIRN_LIBNCCL names one");
	elf = section_file_read(fd);
	assert_int_equal(0, elf_symbols_init(&symbols, &elf));
	for (size_t i = 0; i < count; i++) {
		struct probe_site site;

		if (rows[i].library != GPU_LIBRARY_NCCL ||
		    probe_site_find(&symbols, rows[i].symbol, &site))
			continue;
		EXPECT_EQ(false, site.is_expensive, rows[i].symbol);
		found++;
	}
	// NCCL 2.18 has 15 of them, 2.32 all.
	EXPECT_EQ(true, found >= 15, "functions of the table");
	elf_symbols_deinit(&symbols);
}

RUN_TESTS(cmocka_unit_test(picks_the_first_emulated_instruction),
	  cmocka_unit_test(searches_a_bounded_part_of_code),
	  cmocka_unit_test(finds_sites_in_each_export_shape),
	  cmocka_unit_test(refuses_symbols_outside_of_code),
	  cmocka_unit_test(refuses_truncated_files_or_finds_the_site),
	  cmocka_unit_test(refuses_lying_symbols),
	  cmocka_unit_test(real_driver_exports_have_cheap_sites),
	  cmocka_unit_test(real_nccl_exports_have_cheap_sites))

#else

TEST(only_x86_64_has_cheap_sites)
{
	SKIP("another architecture");
}

RUN_TESTS(cmocka_unit_test(only_x86_64_has_cheap_sites))

#endif
