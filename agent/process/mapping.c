// SPDX-License-Identifier: Apache-2.0
#include "agent/process/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/text.h"

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
	free(list->texts);
	free(list);
}

/* ---- one line ------------------------------------------------------------------------------ */

/* A cursor over one line. A missing field sets failed for good. */
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

static uint64_t read_number(struct words *words, int base)
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

static void expect(struct words *words, char wanted)
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
	mapping->start = read_number(words, 16);
	expect(words, '-');
	mapping->limit = read_number(words, 16);
	expect(words, ' ');
	if (words->failed || words->end - words->at < 5)
		return false;
	*ret_executable = words->at[2] == 'x';
	words->at += 4; // rwxp
	expect(words, ' ');
	mapping->file_offset = read_number(words, 16);
	expect(words, ' ');
	mapping->device_major = (uint32_t)read_number(words, 16);
	expect(words, ':');
	mapping->device_minor = (uint32_t)read_number(words, 16);
	expect(words, ' ');
	mapping->inode = read_number(words, 10);
	skip_spaces(words);
	return !words->failed && mapping->start < mapping->limit;
}

/* In maps the kernel escapes only newlines, as \012 (seq_file's mangle_path). */
static void copy_path(const char *path, size_t size, bool escaped, char *ret_path)
{
	size_t length = 0;

	for (size_t i = 0; i < size && length < MAPPING_PATH_BYTES_MAX - 1; i++) {
		if (escaped && size - i >= 4 && memcmp(path + i, "\\012", 4) == 0) {
			ret_path[length++] = '\n';
			i += 3;
		} else {
			ret_path[length++] = path[i];
		}
	}
	ret_path[length] = '\0';
}

static void clean_path(const char *path, size_t size, bool escaped, char *ret_path)
{
	static const char deleted[] = " (deleted)", memfd[] = "/memfd:";
	size_t deleted_size = strlen(deleted);

	if (size >= deleted_size && memcmp(path + size - deleted_size, deleted, deleted_size) == 0)
		size -= deleted_size;
	if (size > strlen(memfd) && memcmp(path, memfd, strlen(memfd)) == 0) {
		path++;
		size--;
	}
	copy_path(path, size, escaped, ret_path);
}

/* Mappings of one file lie side by side: a text is only compared with the @neighbour's. */
static int add_text(struct mapping_list *list, const char *text, uint32_t neighbour,
		    uint32_t *ret_offset)
{
	size_t size = strlen(text);

	if (list->texts_size && strcmp(list->texts + neighbour, text) == 0) {
		*ret_offset = neighbour;
		return 0;
	}
	if (array_reserve(&list->texts, 1, &list->texts_capacity, list->texts_size,
			  (uint32_t)size + 2, UINT32_MAX))
		return -ENOMEM;
	if (!list->texts_size)
		list->texts[list->texts_size++] = '\0'; // the first is ""
	*ret_offset = size ? list->texts_size : 0;
	if (size) {
		memcpy(list->texts + list->texts_size, text, size + 1);
		list->texts_size += (uint32_t)size + 1;
	}
	return 0;
}

static enum mapping_file file_of(const struct mapping *mapping, const char *path)
{
	bool has_file = mapping->inode || mapping->build_id || strcmp(path, "[vdso]") == 0;

	return has_file ? MAPPING_FILE_UNKNOWN : MAPPING_FILE_NONE;
}

static int reserve(struct mapping_list *list, uint32_t more)
{
	return array_reserve(&list->mappings, sizeof(*list->mappings), &list->capacity, list->count,
			     more, MAPPINGS_MAX);
}

int mapping_list_add_line(struct mapping_list *list, const char *line, size_t size)
{
	struct words words = { .at = line, .end = line + size };
	struct mapping mapping = { 0 };
	char path[MAPPING_PATH_BYTES_MAX];
	bool executable;

	if (!parse_fields(&words, &mapping, &executable) || !executable)
		return 0;
	// The kernel writes mappings in order.
	if (list->count && mapping.start < list->mappings[list->count - 1].limit)
		return 0;

	// A NUL ends the path: no kernel writes one.
	size_t path_size = strnlen(words.at, (size_t)(words.end - words.at));
	clean_path(words.at, path_size, true, path);
	uint32_t neighbour = list->count ? list->mappings[list->count - 1].path : 0;
	int rc = add_text(list, path, neighbour, &mapping.path);
	if (!rc)
		rc = reserve(list, 1);
	if (rc)
		return rc;
	mapping.file = file_of(&mapping, path);
	list->mappings[list->count++] = mapping;
	return 0;
}

/* ---- all lines ----------------------------------------------------------------------------- */

/* Add the complete lines of @chunk; *ret_used is their size. */
static int add_lines(struct mapping_list *list, const char *chunk, size_t size, size_t *ret_used)
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
		int rc = add_lines(list, chunk, held, &used);
		if (rc)
			return rc;
		held -= used;
		if (held == READ_BYTES) // no line of the kernel's is so long: skipped
			held = 0;
		memmove(chunk, chunk + used, held);
	}
	return 0;
}

/* Free spare memory: a list lives as long as its process. */
static void shrink(struct mapping_list *list)
{
	if (list->count && list->count < list->capacity) {
		void *mappings = reallocarray(list->mappings, list->count, sizeof(*list->mappings));
		if (mappings) {
			list->mappings = mappings;
			list->capacity = list->count;
		}
	}
	if (list->texts_size && list->texts_size < list->texts_capacity) {
		char *texts = realloc(list->texts, list->texts_size);
		if (texts) {
			list->texts = texts;
			list->texts_capacity = list->texts_size;
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

/* ---- finding -------------------------------------------------------------------------------- */

/* The first mapping that ends above @address, or count. */
static uint32_t first_above(const struct mapping_list *list, uint64_t address)
{
	uint32_t low = 0, high = list->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->mappings[middle].limit <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct mapping *mapping_list_find(struct mapping_list *list, uint64_t address)
{
	uint32_t at = list ? first_above(list, address) : 0;

	if (!list || at == list->count || address < list->mappings[at].start)
		return NULL;
	return &list->mappings[at];
}

/* ---- changes -------------------------------------------------------------------------------- */

struct mapping_list *mapping_list_copy(const struct mapping_list *list)
{
	struct mapping_list *copy = mapping_list_new();

	if (!copy)
		return NULL;
	copy->mappings = calloc(list->count ? list->count : 1, sizeof(*copy->mappings));
	copy->texts = malloc(list->texts_size ? list->texts_size : 1);
	if (!copy->mappings || !copy->texts) {
		mapping_list_release(copy);
		return NULL;
	}
	if (list->texts_size)
		memcpy(copy->texts, list->texts, list->texts_size);
	copy->texts_size = copy->texts_capacity = list->texts_size;
	copy->put_count = list->put_count;
	for (uint32_t i = 0; i < list->count; i++) {
		copy->mappings[i] = list->mappings[i];
		executable_hold(copy->mappings[i].executable);
	}
	copy->count = copy->capacity = list->count;
	return copy;
}

/* Remove the texts of replaced mappings. Out of memory: next time. */
static void renew_texts(struct mapping_list *list)
{
	struct mapping_list renewed = { 0 };
	uint32_t path = 0, build_id = 0;

	for (uint32_t i = 0; i < list->count; i++)
		if (add_text(&renewed, mapping_path(list, &list->mappings[i]), path, &path) ||
		    add_text(&renewed, mapping_build_id(list, &list->mappings[i]), build_id,
			     &build_id)) {
			free(renewed.texts);
			return;
		}
	path = build_id = 0;
	renewed.texts_size = 0; // the same once more: now there is room
	for (uint32_t i = 0; i < list->count; i++) {
		struct mapping *mapping = &list->mappings[i];

		add_text(&renewed, mapping_path(list, mapping), path, &path);
		add_text(&renewed, mapping_build_id(list, mapping), build_id, &build_id);
		mapping->path = path;
		mapping->build_id = build_id;
	}
	free(list->texts);
	list->texts = renewed.texts;
	list->texts_size = renewed.texts_size;
	list->texts_capacity = renewed.texts_capacity;
	list->put_count = 0;
}

static int add_texts(struct mapping_list *list, const char *path, const char *build_id, uint32_t at,
		     struct mapping *mapping)
{
	static const struct mapping none;
	const struct mapping *neighbour = at < list->count ? &list->mappings[at] : &none;
	char cleaned[MAPPING_PATH_BYTES_MAX];

	if (++list->put_count > 2 * list->count + 64)
		renew_texts(list);
	clean_path(path, strlen(path), false, cleaned);
	int rc = add_text(list, cleaned, neighbour->path, &mapping->path);
	if (!rc)
		rc = add_text(list, build_id, neighbour->build_id, &mapping->build_id);
	mapping->file = file_of(mapping, cleaned);
	return rc;
}

/* The mappings from @first up to @end as @mapping leaves them: it may cut one on either side. */
static uint32_t split(const struct mapping_list *list, uint32_t first, uint32_t end,
		      const struct mapping *mapping, struct mapping ret_parts[3])
{
	uint32_t count = 0;

	if (first < end && list->mappings[first].start < mapping->start) {
		ret_parts[count] = list->mappings[first];
		ret_parts[count++].limit = mapping->start;
	}
	ret_parts[count++] = *mapping;
	if (first < end && list->mappings[end - 1].limit > mapping->limit) {
		struct mapping *part = &ret_parts[count++];

		*part = list->mappings[end - 1];
		part->file_offset += mapping->limit - part->start;
		part->start = mapping->limit;
	}
	return count;
}

/* Replace the mappings from @first up to @end by the parts. */
static int replace(struct mapping_list *list, uint32_t first, uint32_t end,
		   const struct mapping *parts, uint32_t count)
{
	uint32_t removed = end - first;
	int rc = count > removed ? reserve(list, count - removed) : 0;

	if (rc)
		return rc;
	for (uint32_t i = 0; i < count; i++)
		executable_hold(parts[i].executable);
	for (uint32_t i = first; i < end; i++)
		executable_release(list->mappings[i].executable);
	memmove(list->mappings + first + count, list->mappings + end,
		(list->count - end) * sizeof(*list->mappings));
	memcpy(list->mappings + first, parts, count * sizeof(*parts));
	list->count += count - removed;
	return 0;
}

/* Is @old the event's mapping already? Its file is known by inode or by build id. */
static bool is_repeated(const struct mapping_list *list, const struct mapping *old,
			const struct mapping *mapping, const char *build_id)
{
	if (old->start != mapping->start || old->limit != mapping->limit ||
	    old->file_offset != mapping->file_offset)
		return false;
	if (build_id[0] && !old->build_id)
		return old->executable && strcmp(old->executable->id, build_id) == 0;
	if (build_id[0])
		return strcmp(mapping_build_id(list, old), build_id) == 0;
	return !old->build_id && old->inode == mapping->inode &&
	       old->device_major == mapping->device_major &&
	       old->device_minor == mapping->device_minor;
}

int mapping_list_put(struct mapping_list *list, const struct mapping *range, const char *path,
		     const char *build_id)
{
	struct mapping mapping = *range, parts[3];
	uint32_t first = first_above(list, mapping.start), end = first;

	if (mapping.start >= mapping.limit)
		return 0;
	if (first < list->count && is_repeated(list, &list->mappings[first], &mapping, build_id))
		return 0;
	int rc = add_texts(list, path, build_id, first, &mapping);
	if (rc)
		return rc;
	mapping.executable = NULL;
	while (end < list->count && list->mappings[end].start < mapping.limit)
		end++;
	uint32_t count = split(list, first, end, &mapping, parts);
	rc = replace(list, first, end, parts, count);
	return rc ? rc : 1;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

/* With a build id on one side only, it may be another file by now. */
static bool is_same_mapping(const struct mapping *a, const struct mapping *b)
{
	return !a->build_id == !b->build_id && a->start == b->start && a->limit == b->limit &&
	       a->file_offset == b->file_offset && a->inode == b->inode &&
	       a->device_major == b->device_major && a->device_minor == b->device_minor;
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
		// A refused file is tried again: the error may have been temporary.
		if (old->mappings[at].file != MAPPING_FILE_OPENED ||
		    !is_same_mapping(mapping, &old->mappings[at]))
			continue;
		mapping->executable = executable_hold(old->mappings[at].executable);
		mapping->file = MAPPING_FILE_OPENED;
	}
}

/* The kernel's own code pages: vsyscall's, and copies of instructions that uprobes replaced. */
static bool is_kernels_own(const char *path)
{
	return strcmp(path, "[vsyscall]") == 0 || strcmp(path, "[uprobes]") == 0;
}

/* "/…/jit-1234.dump" */
static bool is_jitdump(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && text_begins_with(name, "/jit-") && text_ends_with(name, ".dump");
}

const struct mapping *mapping_list_find_jitdump(const struct mapping_list *list)
{
	for (uint32_t i = 0; list && i < list->count; i++)
		if (is_jitdump(mapping_path(list, &list->mappings[i])))
			return &list->mappings[i];
	return NULL;
}

bool mapping_is_jit(const struct mapping_list *list, const struct mapping *mapping)
{
	const char *path = mapping_path(list, mapping);

	if (mapping->executable || strcmp(path, "[vdso]") == 0)
		return false;
	if (mapping->file == MAPPING_FILE_NONE)
		return !is_kernels_own(path);
	return text_begins_with(path, "memfd:") || text_begins_with(path, "/dev/zero") ||
	       text_begins_with(path, "/SYSV") || text_begins_with(path, "/anon_hugepage") ||
	       is_jitdump(path);
}

const char *mapping_path(const struct mapping_list *list, const struct mapping *mapping)
{
	return list->texts + mapping->path;
}

const char *mapping_build_id(const struct mapping_list *list, const struct mapping *mapping)
{
	return list->texts + mapping->build_id;
}
