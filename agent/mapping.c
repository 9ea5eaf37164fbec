// SPDX-License-Identifier: Apache-2.0
#include "mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READ_BYTES = 64 << 10 }; // holds the longest line several times over

/* ---- life ---------------------------------------------------------------------------------- */

struct mapping_list *mapping_list_new(void)
{
	struct mapping_list *list = calloc(1, sizeof(*list));

	if (list)
		list->holders = 1;
	return list;
}

struct mapping_list *mapping_list_hold(struct mapping_list *list)
{
	if (list)
		list->holders++;
	return list;
}

void mapping_list_release(struct mapping_list *list)
{
	if (!list || --list->holders)
		return;
	for (uint32_t i = 0; i < list->count; i++)
		executable_release(list->mappings[i].executable);
	free(list->mappings);
	free(list->paths);
	free(list);
}

/* ---- one line ------------------------------------------------------------------------------ */

/* A cursor over one line; a field that is not there fails and sticks. */
struct words {
	const char *at;
	const char *end;
	bool failed;
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static uint64_t take_number(struct words *words, int base)
{
	const char *first = words->at;
	uint64_t number = 0;

	for (; words->at < words->end && digit_of(*words->at) < base; words->at++)
		number = number * (uint64_t)base + (uint64_t)digit_of(*words->at);
	// 64 bits are 16 hexadecimal or 20 decimal digits
	if (words->at == first || words->at - first > (base == 16 ? 16 : 20))
		words->failed = true;
	return number;
}

static void take_character(struct words *words, char wanted)
{
	if (words->at < words->end && *words->at == wanted)
		words->at++;
	else
		words->failed = true;
}

static void skip_spaces(struct words *words)
{
	while (words->at < words->end && *words->at == ' ')
		words->at++;
}

/* "55d0-55e0 r-xp 00001000 fe:00 325835      /path": all but the path. */
static bool parse_fields(struct words *words, struct mapping *mapping, bool *ret_executable)
{
	mapping->start = take_number(words, 16);
	take_character(words, '-');
	mapping->limit = take_number(words, 16);
	take_character(words, ' ');
	if (words->failed || words->end - words->at < 5)
		return false;
	*ret_executable = words->at[2] == 'x';
	words->at += 4; // rwxp
	take_character(words, ' ');
	mapping->file_offset = take_number(words, 16);
	take_character(words, ' ');
	mapping->device_major = (uint32_t)take_number(words, 16);
	take_character(words, ':');
	mapping->device_minor = (uint32_t)take_number(words, 16);
	take_character(words, ' ');
	mapping->inode = take_number(words, 10);
	skip_spaces(words);
	return !words->failed && mapping->start < mapping->limit;
}

static bool ends_in(const char *text, size_t size, const char *end)
{
	size_t end_size = strlen(end);

	return size >= end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

/* The kernel writes a newline in a path as \012, and nothing else so (d_path, seq_file's mangle_path). */
static size_t unescape_path(const char *path, size_t size, char *ret_path)
{
	size_t length = 0;

	for (size_t i = 0; i < size && length < MAPPING_PATH_BYTES_MAX - 1; i++) {
		if (size - i >= 4 && memcmp(path + i, "\\012", 4) == 0) {
			ret_path[length++] = '\n';
			i += 3;
		} else {
			ret_path[length++] = path[i];
		}
	}
	ret_path[length] = '\0';
	return length;
}

static size_t clean_path(const char *path, size_t size, char *ret_path)
{
	static const char deleted[] = " (deleted)", memfd[] = "/memfd:";

	if (ends_in(path, size, deleted))
		size -= strlen(deleted);
	if (size > strlen(memfd) && memcmp(path, memfd, strlen(memfd)) == 0) {
		path++;
		size--;
	}
	return unescape_path(path, size, ret_path);
}

/* Lines of one file follow each other: only the last path is compared with. */
static int add_path(struct mapping_list *list, const char *path, size_t size, uint32_t *ret_place)
{
	if (list->count) {
		uint32_t last = list->mappings[list->count - 1].path;

		if (strcmp(list->paths + last, path) == 0) {
			*ret_place = last;
			return 0;
		}
	}
	if (!size && list->paths_size) {
		*ret_place = 0;
		return 0;
	}

	size_t needed = list->paths_size + size + 2; // the first is ""
	if (needed > list->paths_capacity) {
		size_t capacity = needed < 1024 ? 1024 : needed * 2;
		char *paths = capacity > UINT32_MAX ? NULL : realloc(list->paths, capacity);
		if (!paths)
			return -ENOMEM;
		list->paths = paths;
		list->paths_capacity = (uint32_t)capacity;
	}
	if (!list->paths_size)
		list->paths[list->paths_size++] = '\0';
	*ret_place = size ? list->paths_size : 0;
	if (size) {
		memcpy(list->paths + list->paths_size, path, size + 1);
		list->paths_size += (uint32_t)size + 1;
	}
	return 0;
}

static int append_mapping(struct mapping_list *list, const struct mapping *mapping)
{
	if (list->count == MAPPINGS_MAX)
		return -E2BIG;
	if (list->count == list->capacity) {
		uint32_t capacity = list->capacity ? list->capacity * 2 : 16;
		struct mapping *mappings =
			reallocarray(list->mappings, capacity, sizeof(*mappings));
		if (!mappings)
			return -ENOMEM;
		list->mappings = mappings;
		list->capacity = capacity;
	}
	list->mappings[list->count++] = *mapping;
	return 0;
}

int mapping_list_add_line(struct mapping_list *list, const char *line, size_t size)
{
	struct words words = { .at = line, .end = line + size };
	struct mapping mapping = { 0 };
	char path[MAPPING_PATH_BYTES_MAX];
	bool executable;

	if (!parse_fields(&words, &mapping, &executable) || !executable)
		return 0;
	// The kernel writes them in order; what is not is no mapping of this process.
	if (list->count && mapping.start < list->mappings[list->count - 1].limit)
		return 0;

	// A NUL ends the path: no kernel writes one.
	size_t path_size = strnlen(words.at, (size_t)(words.end - words.at));
	path_size = clean_path(words.at, path_size, path);
	int rc = add_path(list, path, path_size, &mapping.path);
	if (rc)
		return rc;
	bool has_file = mapping.inode || strcmp(path, "[vdso]") == 0;
	mapping.file = has_file ? MAPPING_FILE_UNKNOWN : MAPPING_FILE_NONE;
	return append_mapping(list, &mapping);
}

/* ---- all lines ----------------------------------------------------------------------------- */

/* Take the whole lines of @chunk; *ret_used is how many bytes they are. */
static int take_lines(struct mapping_list *list, const char *chunk, size_t size, size_t *ret_used)
{
	const char *line = chunk, *end;

	while ((end = memchr(line, '\n', size - (size_t)(line - chunk)))) {
		int rc = mapping_list_add_line(list, line, (size_t)(end - line));
		if (rc)
			return rc;
		line = end + 1;
	}
	*ret_used = (size_t)(line - chunk);
	return 0;
}

static int read_lines(struct mapping_list *list, int fd, char *chunk)
{
	size_t held = 0, total = 0;

	while (total < MAPS_BYTES_MAX) {
		ssize_t size = read(fd, chunk + held, READ_BYTES - held);
		size_t used;

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return -errno;
		if (size == 0)
			return 0;
		held += (size_t)size;
		total += (size_t)size;
		int rc = take_lines(list, chunk, held, &used);
		if (rc)
			return rc;
		held -= used;
		if (held == READ_BYTES) // no line is so long: forget it
			held = 0;
		memmove(chunk, chunk + used, held);
	}
	return 0;
}

/* Give back what growing left over: lists live as long as their process. */
static void shrink(struct mapping_list *list)
{
	if (list->count && list->count < list->capacity) {
		void *mappings = reallocarray(list->mappings, list->count, sizeof(*list->mappings));
		if (mappings) {
			list->mappings = mappings;
			list->capacity = list->count;
		}
	}
	if (list->paths_size && list->paths_size < list->paths_capacity) {
		char *paths = realloc(list->paths, list->paths_size);
		if (paths) {
			list->paths = paths;
			list->paths_capacity = list->paths_size;
		}
	}
}

int mapping_list_read(int fd, struct mapping_list **ret_list)
{
	_cleanup_free_ char *chunk = malloc(READ_BYTES);
	struct mapping_list *list = mapping_list_new();
	int rc = chunk && list ? read_lines(list, fd, chunk) : -ENOMEM;

	if (rc && rc != -E2BIG) {
		mapping_list_release(list);
		return rc;
	}
	shrink(list);
	*ret_list = list;
	return 0;
}

/* ---- use ----------------------------------------------------------------------------------- */

struct mapping *mapping_list_find(struct mapping_list *list, uint64_t address)
{
	uint32_t low = 0, high = list ? list->count : 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->mappings[middle].limit <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!list || low == list->count || address < list->mappings[low].start)
		return NULL;
	return &list->mappings[low];
}

static bool is_same_mapping(const struct mapping *a, const struct mapping *b)
{
	return a->start == b->start && a->limit == b->limit && a->file_offset == b->file_offset &&
	       a->inode == b->inode && a->device_major == b->device_major &&
	       a->device_minor == b->device_minor;
}

bool mapping_list_equals(const struct mapping_list *list, const struct mapping_list *other)
{
	if (!other || list->count != other->count)
		return false;
	for (uint32_t i = 0; i < list->count; i++)
		if (!is_same_mapping(&list->mappings[i], &other->mappings[i]))
			return false;
	return true;
}

void mapping_list_inherit(struct mapping_list *list, const struct mapping_list *old)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < list->count && old; i++) {
		struct mapping *mapping = &list->mappings[i];

		while (at < old->count && old->mappings[at].start < mapping->start)
			at++;
		if (at == old->count)
			return;
		// A file that was refused is tried again: it may have been a moment's trouble.
		if (old->mappings[at].file != MAPPING_FILE_OPENED ||
		    !is_same_mapping(mapping, &old->mappings[at]))
			continue;
		mapping->executable = executable_hold(old->mappings[at].executable);
		mapping->file = MAPPING_FILE_OPENED;
	}
}

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* The kernel's own code pages: vsyscall's, and where it steps over the instructions of uprobes. */
static bool is_kernels_own(const char *path)
{
	return strcmp(path, "[vsyscall]") == 0 || strcmp(path, "[uprobes]") == 0;
}

/* "jit-1234.dump": its writer maps a page of it executable so that profilers learn of it. */
static bool is_jitdump(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && begins_with(name, "/jit-") && ends_in(name, strlen(name), ".dump");
}

bool mapping_is_jit(const struct mapping_list *list, const struct mapping *mapping)
{
	const char *path = mapping_path(list, mapping);

	if (mapping->executable || strcmp(path, "[vdso]") == 0)
		return false;
	if (mapping->file == MAPPING_FILE_NONE)
		return !is_kernels_own(path);
	return begins_with(path, "memfd:") || begins_with(path, "/dev/zero") ||
	       begins_with(path, "/SYSV") || is_jitdump(path);
}

const char *mapping_path(const struct mapping_list *list, const struct mapping *mapping)
{
	return list->paths + mapping->path;
}
