// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_build.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/python/python_layout.h"
#include "base/cleanup.h"

enum {
	MINOR_MAX = 99,
	STRINGS_BYTES_MAX = 32 << 20, // of .rodata, which is searched for a version
	FUNCTION_BYTES = 16,          // of a function that only returns a variable
};

/* A number of one or two digits; 0 if there is none, or more. */
static uint32_t read_minor(const char *text)
{
	uint32_t minor = 0, digits = 0;

	for (; isdigit((unsigned char)text[digits]) && digits < 3; digits++)
		minor = minor * 10 + (uint32_t)(text[digits] - '0');
	return digits && minor <= MINOR_MAX ? minor : 0;
}

/* python3.11, libpython3.9.so.1.0, libpython3.6m.so. */
static uint32_t minor_of_path(const char *path)
{
	const char *name = strrchr(path, '/');
	const char *version = strstr(name ? name : path, "python3.");

	return version ? read_minor(version + strlen("python3.")) : 0;
}

static bool find_value(const struct elf_symbols *symbols, const char *name, uint64_t *ret_value)
{
	Elf64_Sym symbol;

	if (elf_symbols_find_exported(symbols, name, &symbol))
		return false;
	*ret_value = symbol.st_value;
	return true;
}

/* Py_Version, 3.11 and newer: as PY_VERSION_HEX. */
static uint32_t minor_of_variable(const struct elf_symbols *symbols)
{
	uint64_t address;
	uint32_t version;

	if (!find_value(symbols, "Py_Version", &address) ||
	    elf_read_address(symbols->elf, address, &version, sizeof(version)) ||
	    version >> 24 != 3)
		return 0;
	return version >> 16 & 0xff;
}

/* The path of the standard library: "lib/python3.9", since 3.10 "python3.10". With several versions none is sure. */
static uint32_t minor_of_strings(const struct elf_symbols *symbols)
{
	static const char library[] = "python3.";
	const Elf64_Shdr *section = elf_symbols_find_section(symbols, ".rodata");
	_cleanup_free_ char *bytes = NULL;
	uint32_t found = 0;

	if (!section || section->sh_size > STRINGS_BYTES_MAX)
		return 0;
	bytes = malloc(section->sh_size + 1);
	if (!bytes || elf_read(symbols->elf, section->sh_offset, bytes, section->sh_size))
		return 0;
	bytes[section->sh_size] = '\0';
	for (const char *at = bytes, *limit = bytes + section->sh_size;
	     (at = memmem(at, (size_t)(limit - at), library, strlen(library)));) {
		uint32_t minor;

		at += strlen(library);
		minor = read_minor(at);
		if (minor && found && found != minor)
			return 0;
		found = minor ? minor : found;
	}
	return found;
}

/*
 * The variable that a function returns: on x86-64 "mov variable(%rip),%rax; ret", perhaps after endbr64. CPython 3.6
 * has no symbol for its interpreters.
 */
static uint64_t returned_variable(const struct elf_symbols *symbols, const char *function)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t code[FUNCTION_BYTES];
	uint64_t address;
	int32_t distance;
	size_t at;

	if (symbols->elf->header.e_machine != EM_X86_64 ||
	    !find_value(symbols, function, &address) ||
	    elf_read_address(symbols->elf, address, code, sizeof(code)))
		return 0;
	at = memcmp(code, endbr64, sizeof(endbr64)) == 0 ? sizeof(endbr64) : 0;
	if (code[at] != 0x48 || code[at + 1] != 0x8b || code[at + 2] != 0x05 ||
	    code[at + 7] != 0xc3)
		return 0;
	memcpy(&distance, &code[at + 3], sizeof(distance));
	return address + at + 7 + (uint64_t)(int64_t)distance;
}

/* Since 3.13 _PyRuntime has a section of its own, which stripped files keep. */
static uint64_t runtime_of_section(const struct elf_symbols *symbols)
{
	const Elf64_Shdr *section = elf_symbols_find_section(symbols, ".PyRuntime");

	return section ? section->sh_addr : 0;
}

struct local_symbols {
	struct python_build *build;
	bool is_python;
};

/* A static executable exports nothing: its .symtab is searched. */
static bool visit_local(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct local_symbols *local = context;

	if (strcmp(name, "_PyEval_EvalFrameDefault") == 0)
		local->is_python = true;
	else if (strcmp(name, "_PyRuntime") == 0)
		local->build->runtime = symbol->st_value;
	else if (strcmp(name, "PyCode_Type") == 0)
		local->build->code_type = symbol->st_value;
	return true;
}

/* Fill in addresses from symbols. False: the file is no interpreter. */
static bool find_variables(const struct elf_symbols *symbols, struct python_build *build)
{
	struct local_symbols local = { .build = build };
	uint64_t eval;

	build->runtime = runtime_of_section(symbols);
	if (find_value(symbols, "_PyEval_EvalFrameDefault", &eval)) {
		find_value(symbols, "_PyRuntime", &build->runtime);
		find_value(symbols, "PyCode_Type", &build->code_type);
		return true;
	}
	if (elf_symbols_has_exported(symbols))
		return false;
	elf_symbols_each(symbols, visit_local, &local);
	return local.is_python || build->runtime;
}

static uint32_t find_minor(const struct elf_symbols *symbols, const char *path)
{
	uint32_t minor = minor_of_variable(symbols);

	if (!minor)
		minor = minor_of_path(path);
	return minor ? minor : minor_of_strings(symbols);
}

static int check_version(const struct python_build *build, struct error *err)
{
	if (build->minor && build->minor < PYTHON_MINOR_MIN)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.%u stay native: cairn unwinds 3.6 and later",
				 build->minor);
	if (build->minor == PYTHON_MINOR_MIN && !build->interpreters)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.6 stay native: its symbols are stripped; "
				 "install them");
	if (build->minor != PYTHON_MINOR_MIN && !build->runtime)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.%u stay native: its symbols are stripped; "
				 "install them",
				 build->minor);
	return 0;
}

int python_build_read(const struct elf *elf, const char *path, struct python_build *ret_build,
		      struct error *err)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols;
	struct python_build build = { 0 };
	int rc = elf_symbols_init(&symbols, elf);

	if (rc)
		return rc;
	if (!find_variables(&symbols, &build))
		return -ENOENT;
	build.minor = find_minor(&symbols, path);
	if (build.minor == PYTHON_MINOR_MIN) {
		build.interpreters = returned_variable(&symbols, "PyInterpreterState_Head");
		find_value(&symbols, "_PyThreadState_Current", &build.holder);
	}
	rc = check_version(&build, err);
	if (rc)
		return rc;
	*ret_build = build;
	return 0;
}
