// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/file_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

bool file_has_symtab(const struct elf *elf)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint32_t count;

	if (elf_read_sections(elf, &sections, &count))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_size)
			return true;
	return false;
}

static int read_headers(int fd, struct elf *ret_elf)
{
	struct stat status;

	return fstat(fd, &status) ? -errno : elf_read_headers(fd, &status, ret_elf, NULL);
}

/* The separate file first: it has all of the packed symbols. */
static int find_debug(const struct elf *elf, const struct debug_file_search *search,
		      uint64_t *ret_bytes)
{
	int fd = debug_file_open(elf, search);

	if (fd < 0 && debug_file_unpack(elf, &fd, ret_bytes))
		return -1;
	return fd;
}

int file_symbols_read(int fd, const struct debug_file_search *search, int debug_fd,
		      struct file_symbols *ret_symbols)
{
	_cleanup_close_ int debug = debug_fd;
	struct symbol_table *table;
	struct elf elf, debug_elf;
	uint64_t debug_bytes = 0;

	int rc = read_headers(fd, &elf);
	if (rc)
		return rc;
	struct symbol_sources sources = {
		.elf = &elf,
		.is_cuda_driver = text_begins_with(path_base_name(search->path), "libcuda.so"),
	};
	if (debug < 0 && !file_has_symtab(&elf))
		debug = find_debug(&elf, search, &debug_bytes);
	if (debug >= 0 && read_headers(debug, &debug_elf) == 0)
		sources.debug = &debug_elf; // a broken one counts as none
	rc = symbol_table_read(&sources, &table);
	if (rc)
		return rc;
	*ret_symbols = (struct file_symbols){
		.table = table,
		.debug_fd = sources.debug ? take_fd(debug) : -1,
		.debug_bytes = sources.debug ? debug_bytes : 0,
	};
	return 0;
}

void file_symbols_deinit(struct file_symbols *symbols)
{
	symbol_table_free(symbols->table);
	if (symbols->debug_fd >= 0)
		close(symbols->debug_fd);
	*symbols = (struct file_symbols){ .debug_fd = -1 };
}

int file_symbols_read_name(const struct file_symbols *symbols, int fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES])
{
	return symbol_table_read_name(symbols->table, fd, symbols->debug_fd, index, ret_name);
}

bool file_symbols_want_more(const struct file_symbols *symbols)
{
	// Mini debug info completes the functions, too.
	return !symbol_table_is_complete(symbols->table);
}

bool file_symbols_have_debug_file(const struct file_symbols *symbols)
{
	return symbols->debug_fd >= 0 && !symbols->debug_bytes;
}

bool file_has_lines(int fd)
{
	static const char *const names[] = { ".debug_line", ".zdebug_line" };
	Elf64_Shdr section;
	struct elf elf;

	if (read_headers(fd, &elf))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (elf_find_section(&elf, names[i], &section) == 0)
			return section.sh_type != SHT_NOBITS;
	return false;
}

uint64_t file_symbols_bytes(const struct file_symbols *symbols)
{
	return symbol_table_bytes(symbols->table) + symbols->debug_bytes;
}
