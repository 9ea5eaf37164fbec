// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/file_tasks.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/symbols/demangle.h"
#include "base/symbols/dwarf_lines.h"
#include "base/symbols/source_line_message.h"
#include "collector/symbols/debug_elf.h"

static int write_all(int socket, const struct buffer *message)
{
	if (message->rc)
		return message->rc;
	for (size_t at = 0; at < message->size;) {
		ssize_t count = write(socket, message->bytes + at, message->size - at);

		if (count < 0)
			return -errno;
		at += (size_t)count;
	}
	return 0;
}

typedef void (*answer_fn)(void *context, uint64_t key, struct buffer *message);

/* Until the collector closes its end. Returns 0 or -errno. */
static int serve(int socket, answer_fn answer, void *context)
{
	struct buffer message = { 0 };
	uint64_t key;
	int rc = 0;

	while (!rc && read(socket, &key, sizeof(key)) == sizeof(key)) {
		buffer_clear(&message);
		answer(context, key, &message);
		rc = write_all(socket, &message);
	}
	return rc;
}

/* ---- symbols ------------------------------------------------------------------------------- */

static void answer_name(struct buffer *message, uint64_t address, const char *name)
{
	source_line_message_begin(message, 0, address, 1);
	source_line_message_add(message, name, "", 0);
}

static void answer_function(void *context, uint64_t key, struct buffer *message)
{
	const struct debug_elf *elf = context;
	char name[DEMANGLED_BYTES_MAX] = "", id[DEBUG_ELF_ID_BYTES];
	uint64_t address;

	if (key == FILE_TASK_ALT_ID) {
		answer_name(message, 0, debug_elf_alt_id(elf, id) ? "" : id);
	} else if (debug_elf_address(elf, key, &address)) {
		source_line_message_begin(message, 0, 0, 0);
	} else {
		const char *symbol = debug_elf_function(elf, address);

		if (symbol)
			demangle(symbol, name);
		answer_name(message, address, name);
	}
}

static int serve_symbols(const int *files)
{
	struct debug_elf *elf;

	return debug_elf_open(files[FILE_TASK_FILE], &elf, NULL) ||
	       serve(files[FILE_TASK_SOCKET], answer_function, elf);
}

const struct confined_task symbol_task = {
	"symbols",
	{ .memory_bytes = FILE_TASK_MEMORY_BYTES },
	serve_symbols,
};

/* ---- DWARF --------------------------------------------------------------------------------- */

static void answer_lines(void *context, uint64_t key, struct buffer *message)
{
	struct dwarf_position position;

	if (!context || dwarf_lines_find(context, key, &position))
		position.count = 0;
	source_line_message_begin(message, 0, 0, position.count);
	source_line_message_add_dwarf(message, &position);
}

/* A file without DWARF has no lines: that is no failure. */
static int serve_dwarf(const int *files)
{
	struct dwarf_lines *lines = NULL;
	int rc = dwarf_lines_open(files[FILE_TASK_FILE], files[FILE_TASK_ALT], &lines);

	return (rc && rc != -ENOENT) || serve(files[FILE_TASK_SOCKET], answer_lines, lines);
}

const struct confined_task dwarf_task = {
	"dwarf",
	{ .memory_bytes = FILE_TASK_MEMORY_BYTES },
	serve_dwarf,
};
