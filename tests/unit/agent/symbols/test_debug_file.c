// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#include <lzma.h>
#include <zlib.h>

#include "agent/symbols/file_symbols.h"
#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"
#include "tests/unit/agent/elf/section_file.h"

enum { ID_BYTE = 0xab, PACKED_MAX = 256 << 10 };

#define ID_TEXT "abababababababababababababababababababab"

/* A process's folder with a root of our own; removed at the end. */
struct world {
	char folder[32];
	int fd;
};

static void world_new(struct world *world)
{
	strcpy(world->folder, "/tmp/cairn-debug-XXXXXX");
	assert_non_null(mkdtemp(world->folder));
	world->fd = open(world->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(world->fd >= 0);
}

static void world_end(const struct world *world)
{
	char command[64];

	close(world->fd);
	snprintf(command, sizeof(command), "rm -r %s", world->folder);
	assert_int_equal(0, system(command));
}

/* Copy what @fd holds to @path below the root. */
static void world_put(const struct world *world, const char *path, int fd)
{
	char name[256], command[320];
	uint8_t bytes[4096];
	ssize_t count;

	snprintf(name, sizeof(name), "%s/root%s", world->folder, path);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", name);
	assert_int_equal(0, system(command));
	int out = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(out >= 0);
	for (off_t at = 0; (count = pread(fd, bytes, sizeof(bytes), at)) > 0; at += count)
		assert_int_equal(count, write(out, bytes, (size_t)count));
	close(out);
}

static int make_debug(uint8_t id)
{
	struct section_file file;

	section_file_new(&file);
	section_file_add_id(&file, id);
	section_file_add(&file, ".debug_info", SHT_PROGBITS, "debug", 5);
	return section_file_close(&file);
}

static uint32_t checksum_of(int fd)
{
	static uint8_t bytes[1 << 16];
	ssize_t count = pread(fd, bytes, sizeof(bytes), 0);

	assert_true(count > 0 && count < (ssize_t)sizeof(bytes));
	return (uint32_t)crc32(0, bytes, (uInt)count);
}

/* An executable with a link, as objcopy --add-gnu-debuglink writes it. */
static int make_linked(int id, const char *name, uint32_t checksum)
{
	uint8_t link[DEBUG_LINK_BYTES_MAX + 64] = { 0 };
	size_t at = (strlen(name) + 4) & ~(size_t)3;
	struct section_file file;

	memcpy(link, name, strlen(name));
	memcpy(link + at, &checksum, 4);
	section_file_new(&file);
	if (id >= 0)
		section_file_add_id(&file, (uint8_t)id);
	section_file_add(&file, ".gnu_debuglink", SHT_PROGBITS, link, at + 4);
	return section_file_close(&file);
}

static int look(int fd, const char *build_id, const char *path, int folder)
{
	struct elf elf = section_file_read(fd);
	const struct debug_file_search search = {
		.build_id = build_id,
		.path = path,
		.folders = { -1, folder, -1 },
	};

	return debug_file_open(&elf, &search);
}

TEST(finds_debug_files_where_distributions_put_them)
{
	static const struct {
		const char *what;
		const char *place;
		uint8_t id; // of the debug file
		bool found;
	} rows[] = {
		{ "by build id",
		  "/usr/lib/debug/.build-id/ab/ababababababababababababababababababab.debug",
		  ID_BYTE, true },
		{ "by build id, of another",
		  "/usr/lib/debug/.build-id/ab/"
		  "ababababababababababababababababababab.debug",
		  0x55, false },
		{ "beside", "/opt/app/app.debug", ID_BYTE, true },
		{ "in .debug", "/opt/app/.debug/app.debug", ID_BYTE, true },
		{ "below /usr/lib/debug", "/usr/lib/debug/opt/app/app.debug", ID_BYTE, true },
		{ "beside, of another", "/opt/app/app.debug", 0x55, false },
		{ "elsewhere", "/opt/app.debug", ID_BYTE, false },
	};

	for EACH (row, rows) {
		struct world world;
		int debug = make_debug(row->id);
		int fd = make_linked(ID_BYTE, "app.debug", 12345); // the build id counts

		world_new(&world);
		world_put(&world, row->place, debug);
		int found = look(fd, ID_TEXT, "/opt/app/app", world.fd);
		EXPECT_EQ(row->found, found >= 0, row->what);
		if (found >= 0)
			EXPECT_EQ(0, debug_file_check_build_id(found, ID_TEXT), row->what);
		cleanup_closep(&found);
		close(fd);
		close(debug);
		world_end(&world);
	}
}

TEST(checks_the_checksum_without_a_build_id)
{
	struct world world;
	int debug = make_debug(ID_BYTE);

	world_new(&world);
	world_put(&world, "/bin/x.debug", debug);
	for (int wrong = 0; wrong < 2; wrong++) {
		int fd = make_linked(-1, "x.debug", checksum_of(debug) ^ (uint32_t)wrong);
		int found = look(fd, NULL, "/bin/x", world.fd);

		EXPECT_EQ(!wrong, found >= 0, wrong ? "wrong sum" : "right sum");
		cleanup_closep(&found);
		close(fd);
	}
	close(debug);
	world_end(&world);
}

TEST(stays_below_the_root_and_off_devices)
{
	struct world world;
	int debug = make_debug(ID_BYTE);
	int fd = make_linked(ID_BYTE, "x.debug", 0);
	char command[256];

	world_new(&world);
	world_put(&world, "/real", debug);
	snprintf(command, sizeof(command),
		 "cd %s/root && mkdir bin && ln -s /../../../real bin/x.debug && cp real ../real",
		 world.folder);
	assert_int_equal(0, system(command));
	int found = look(fd, ID_TEXT, "/bin/x", world.fd);
	EXPECT_EQ(true, found >= 0, "a link within");
	close(found);
	snprintf(command, sizeof(command), "cd %s/root && rm real", world.folder);
	assert_int_equal(0, system(command));
	EXPECT_EQ(-ENOENT, look(fd, ID_TEXT, "/bin/x", world.fd), "a link that leads out");
	snprintf(command, sizeof(command), "cd %s/root && rm bin/x.debug && mkfifo bin/x.debug",
		 world.folder);
	assert_int_equal(0, system(command));
	EXPECT_EQ(-ENOENT, look(fd, ID_TEXT, "/bin/x", world.fd), "a pipe");
	close(fd);
	close(debug);
	world_end(&world);
}

TEST(refuses_links_that_no_tool_writes)
{
	static const struct {
		const char *what;
		const char *name;
		size_t cut; // bytes off the end
	} rows[] = {
		{ "a path", "../etc/shadow", 0 },
		{ "parent", "..", 0 },
		{ "nothing", "", 0 },
		{ "no checksum", "x.debug", 4 },
		{ "half a checksum", "x.debug", 2 },
	};

	for EACH (row, rows) {
		struct world world;
		struct section_file file;
		uint8_t link[64] = { 0 };
		size_t size = ((strlen(row->name) + 4) & ~(size_t)3) + 4 - row->cut;
		int debug = make_debug(ID_BYTE);

		memcpy(link, row->name, strlen(row->name));
		section_file_new(&file);
		section_file_add_id(&file, ID_BYTE);
		section_file_add(&file, ".gnu_debuglink", SHT_PROGBITS, link, size);
		int fd = section_file_close(&file);
		world_new(&world);
		world_put(&world, "/bin/x.debug", debug);
		world_put(&world, "/etc/shadow", debug);
		EXPECT_EQ(-ENOENT, look(fd, ID_TEXT, "/bin/x", world.fd), row->what);
		world_end(&world);
		close(fd);
		close(debug);
	}
}

/* ---- mini debug info ----------------------------------------------------------------------- */

static size_t pack(const uint8_t *bytes, size_t size, uint8_t packed[PACKED_MAX])
{
	size_t packed_size = 0;

	assert_int_equal(LZMA_OK, lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, bytes, size,
							  packed, &packed_size, PACKED_MAX));
	return packed_size;
}

static int make_packed(const uint8_t *packed, size_t size)
{
	struct section_file file;

	section_file_new(&file);
	section_file_add_id(&file, ID_BYTE);
	section_file_add(&file, ".gnu_debugdata", SHT_PROGBITS, packed, size);
	return section_file_close(&file);
}

static int unpack(int fd, uint64_t *ret_bytes)
{
	struct elf elf = section_file_read(fd);
	int out = -1;
	int rc = debug_file_unpack(&elf, &out, ret_bytes);

	return rc ? rc : out;
}

TEST(packed_symbols_add_to_exported_ones)
{
	static uint8_t packed[PACKED_MAX];
	static const struct debug_file_search nowhere = { .path = "/x", .folders = { -1, -1, -1 } };
	struct file_symbols symbols;
	struct elf_image image;
	char name[SYMBOL_NAME_BYTES];
	struct symbol_range range;

	image_init(&image);
	image_add_symbol(&image, "packed_function", 0x100, 16, STB_LOCAL, STT_FUNC);
	size_t size = pack((const uint8_t *)&image, IMAGE_BYTES, packed);

	// The same without .symtab, with another function exported and the packed file in it.
	image_init(&image);
	image_add_dynamic(&image, "exported", 0x200, 16);
	image.sections[SECTION_STRTAB].sh_type = SHT_NULL;
	image.sections[SECTION_SYMTAB] = (Elf64_Shdr){ .sh_name = 0x1000,
						       .sh_type = SHT_PROGBITS,
						       .sh_offset = IMAGE_BYTES,
						       .sh_size = size };
	memcpy(image.names + 0x1000, ".gnu_debugdata", 15);
	image.header.e_shstrndx = SECTION_DYNSTR;
	int fd = image_open(&image);
	assert_int_equal(size, pwrite(fd, packed, size, IMAGE_BYTES));

	assert_int_equal(0, file_symbols_read(fd, &nowhere, -1, &symbols));
	assert_true(symbols.debug_fd >= 0);
	assert_int_equal(IMAGE_BYTES, symbols.debug_bytes);
	assert_true(file_symbols_bytes(&symbols) > IMAGE_BYTES);
	assert_int_equal(0, symbol_table_find(symbols.table, IMAGE_TEXT + 0x108, &range));
	assert_int_equal(0, file_symbols_read_name(&symbols, fd, range.index, name));
	assert_string_equal("packed_function", name);
	assert_int_equal(0, symbol_table_find(symbols.table, IMAGE_TEXT + 0x208, &range));
	assert_int_equal(0, file_symbols_read_name(&symbols, fd, range.index, name));
	assert_string_equal("exported", name);
	file_symbols_deinit(&symbols);
	close(fd);
}

TEST(unpacks_the_original_bytes)
{
	static uint8_t plain[300000], packed[PACKED_MAX], out[300001];
	uint64_t bytes = 0;

	srandom(7);
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(random() % 4);
	int fd = make_packed(packed, pack(plain, sizeof(plain), packed));
	int unpacked = unpack(fd, &bytes);
	assert_true(unpacked >= 0);
	assert_int_equal(sizeof(plain), bytes);
	assert_int_equal(sizeof(plain), pread(unpacked, out, sizeof(out), 0));
	assert_memory_equal(plain, out, sizeof(plain));
	close(unpacked);
	close(fd);
}

TEST(refuses_broken_packed_symbols)
{
	static uint8_t plain[1 << 20], packed[PACKED_MAX];
	uint64_t bytes;
	size_t size = pack(plain, sizeof(plain), packed);

	for (size_t cut = 0; cut < size; cut += 3) {
		int fd = make_packed(packed, cut);

		EXPECT_EQ(-EBADMSG, unpack(fd, &bytes), "cut");
		close(fd);
	}
	for (size_t at = 0; at < size; at++) {
		packed[at] ^= 0x5a;
		int fd = make_packed(packed, size);
		int rc = unpack(fd, &bytes);
		EXPECT_EQ(true, rc == -EBADMSG || rc == -EFBIG || rc == -ENOMEM, "damaged");
		close(fd);
		packed[at] ^= 0x5a;
	}
	int fd = make_debug(ID_BYTE);
	EXPECT_EQ(-ENOENT, unpack(fd, &bytes), "none");
	close(fd);
}

TEST(stops_a_decompression_bomb_at_the_limit)
{
	static const size_t plain_bytes = (size_t)MINI_DEBUG_BYTES_MAX + 1;
	static uint8_t packed[PACKED_MAX];
	uint64_t bytes;
	uint8_t *plain = calloc(1, plain_bytes);

	assert_non_null(plain);
	size_t size = pack(plain, plain_bytes, packed);
	free(plain);
	int fd = make_packed(packed, size);
	assert_int_equal(-EFBIG, unpack(fd, &bytes));
	close(fd);
}

RUN_TESTS(cmocka_unit_test(finds_debug_files_where_distributions_put_them),
	  cmocka_unit_test(checks_the_checksum_without_a_build_id),
	  cmocka_unit_test(stays_below_the_root_and_off_devices),
	  cmocka_unit_test(refuses_links_that_no_tool_writes),
	  cmocka_unit_test(packed_symbols_add_to_exported_ones),
	  cmocka_unit_test(unpacks_the_original_bytes),
	  cmocka_unit_test(refuses_broken_packed_symbols),
	  cmocka_unit_test(stops_a_decompression_bomb_at_the_limit))
