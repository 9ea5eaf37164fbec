// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/debug_elf.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <elfutils/libdwelf.h>
#include <gelf.h>

#include "base/cleanup.h"

/* A function; its name stays in the file. */
struct function {
	uint64_t address;
	uint64_t size; // 0: to the next one
	const char *name;
};

struct debug_elf {
	Elf *elf;
	struct function *functions; // sorted
	uint32_t function_count;
	bool has_dwarf;
	Elf_Scn *alt_link; // .gnu_debugaltlink, or NULL
};

/* ---- opening ------------------------------------------------------------------------------- */

/* GNU's compressed sections before SHF_COMPRESSED: "ZLIB", the unpacked size, zlib's data. */
struct gnu_packed {
	char magic[4];
	uint8_t size[8]; // big endian
};

static uint64_t gnu_unpacked_bytes(Elf_Scn *section)
{
	const Elf_Data *data = elf_rawdata(section, NULL);
	const struct gnu_packed *packed = data ? data->d_buf : NULL;
	uint64_t size;

	if (!packed || data->d_size < sizeof(*packed) || memcmp(packed->magic, "ZLIB", 4) != 0)
		return 0;
	memcpy(&size, packed->size, sizeof(size));
	return be64toh(size);
}

/* The section's unpacked size; 0: it is not compressed. */
static uint64_t unpacked_bytes(Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	GElf_Chdr packed;

	if (header->sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(section, &packed) ? packed.ch_size : 0;
	return strncmp(name, ".zdebug_", 8) == 0 ? gnu_unpacked_bytes(section) : 0;
}

static bool is_debug_info(const char *name)
{
	return strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0;
}

static int check_sections(struct debug_elf *elf, struct error *err)
{
	uint64_t unpacked = 0;
	size_t count, names;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (elf_getshdrnum(elf->elf, &count) || elf_getshdrstrndx(elf->elf, &names))
		return error_set(err, -EBADMSG, "its section headers are broken");
	if (count > DEBUG_ELF_SECTIONS_MAX)
		return error_set(err, -EFBIG, "it has %zu sections", count);
	while ((section = elf_nextscn(elf->elf, section))) {
		if (!gelf_getshdr(section, &header))
			return error_set(err, -EBADMSG, "its section headers are broken");
		const char *name = elf_strptr(elf->elf, names, header.sh_name);
		uint64_t bytes = unpacked_bytes(section, &header, name ? name : "");

		unpacked +=
			bytes < DEBUG_ELF_UNPACKED_BYTES_MAX ? bytes : DEBUG_ELF_UNPACKED_BYTES_MAX;
		if (!name || header.sh_type == SHT_NOBITS)
			continue;
		if (is_debug_info(name))
			elf->has_dwarf = true;
		if (strcmp(name, ".gnu_debugaltlink") == 0)
			elf->alt_link = section;
	}
	if (unpacked >= DEBUG_ELF_UNPACKED_BYTES_MAX)
		return error_set(err, -EFBIG, "its sections unpack to more than %llu MiB",
				 DEBUG_ELF_UNPACKED_BYTES_MAX >> 20);
	return 0;
}

static bool is_function(const GElf_Sym *symbol)
{
	int type = GELF_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_value;
}

/* At one address, global symbols come first. */
static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->size < b->size) - (a->size > b->size);
}

static int read_symbols(struct debug_elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	uint64_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
	GElf_Sym symbol;

	if (!count)
		return 0;
	if (count > DEBUG_ELF_SYMBOLS_MAX)
		count = DEBUG_ELF_SYMBOLS_MAX;
	elf->functions = malloc(count * sizeof(*elf->functions));
	if (!elf->functions)
		return -ENOMEM;
	for (uint64_t i = 0; i < count && gelf_getsym(data, (int)i, &symbol); i++) {
		if (!is_function(&symbol))
			continue;
		const char *name = elf_strptr(elf->elf, header->sh_link, symbol.st_name);
		if (name && *name)
			elf->functions[elf->function_count++] =
				(struct function){ symbol.st_value, symbol.st_size, name };
	}
	if (elf->function_count)
		qsort(elf->functions, elf->function_count, sizeof(*elf->functions),
		      compare_functions);
	return 0;
}

static int read_symtab(struct debug_elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			return read_symbols(elf, section, &header);
	return 0;
}

int debug_elf_open(int fd, struct debug_elf **ret_elf, struct error *err)
{
	_cleanup_(debug_elf_closep) struct debug_elf *elf = calloc(1, sizeof(*elf));

	if (!elf)
		return error_set(err, -ENOMEM, "out of memory");
	elf_version(EV_CURRENT);
	elf->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf->elf || elf_kind(elf->elf) != ELF_K_ELF)
		return error_set(err, -EBADMSG, "it is not an ELF file");
	int rc = check_sections(elf, err);
	if (rc)
		return rc;
	if (read_symtab(elf))
		return error_set(err, -ENOMEM, "out of memory");
	*ret_elf = take(elf);
	return 0;
}

void debug_elf_close(struct debug_elf *elf)
{
	if (!elf)
		return;
	if (elf->elf)
		elf_end(elf->elf);
	free(elf->functions);
	free(elf);
}

void debug_elf_closep(struct debug_elf **elf)
{
	debug_elf_close(*elf);
}

/* ---- lookups ------------------------------------------------------------------------------- */

static int id_text(const void *bytes, ssize_t size, char ret_id[DEBUG_ELF_ID_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	if (size <= 0 || 2 * size >= DEBUG_ELF_ID_BYTES)
		return -ENOENT;
	for (ssize_t i = 0; i < size; i++) {
		uint8_t byte = ((const uint8_t *)bytes)[i];

		ret_id[2 * i] = digits[byte >> 4];
		ret_id[2 * i + 1] = digits[byte & 15];
	}
	ret_id[2 * size] = '\0';
	return 0;
}

int debug_elf_build_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES])
{
	const void *bytes;
	ssize_t size = dwelf_elf_gnu_build_id(elf->elf, &bytes);

	return id_text(bytes, size, ret_id);
}

int debug_elf_alt_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES])
{
	const Elf_Data *data = elf->alt_link ? elf_rawdata(elf->alt_link, NULL) : NULL;
	size_t name = data ? strnlen(data->d_buf, data->d_size) + 1 : 0;

	return data && name < data->d_size ? id_text((const char *)data->d_buf + name,
						     (ssize_t)(data->d_size - name), ret_id)
					   : -ENOENT;
}

bool debug_elf_has_symbols(const struct debug_elf *elf)
{
	return elf->function_count || elf->has_dwarf;
}

/* objcopy --only-keep-debug empties the code segments. Their offsets in the executable are computed:
 * linkers keep the distance to the first segment as in memory. */
int debug_elf_address(const struct debug_elf *elf, uint64_t offset, uint64_t *ret_address)
{
	uint64_t base = 0;
	bool has_base = false;
	size_t count;

	if (elf_getphdrnum(elf->elf, &count))
		return -ENOENT;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(elf->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		if (!has_base)
			base = segment.p_vaddr - segment.p_offset;
		has_base = true;
		if (!(segment.p_flags & PF_X))
			continue;
		uint64_t from = segment.p_filesz ? segment.p_offset : segment.p_vaddr - base;
		if (offset >= from && offset - from < segment.p_memsz) {
			*ret_address = offset - from + segment.p_vaddr;
			return 0;
		}
	}
	return -ENOENT;
}

const char *debug_elf_function(const struct debug_elf *elf, uint64_t address)
{
	uint32_t low = 0, high = elf->function_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (elf->functions[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	const struct function *function = &elf->functions[low - 1];
	while (function > elf->functions && function[-1].address == function->address)
		function--;
	return !function->size || address - function->address < function->size ? function->name
									       : NULL;
}
