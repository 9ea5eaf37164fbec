// SPDX-License-Identifier: Apache-2.0
// What stands for malloc() and so on in programs that are linked with ACCOUNTED (Makefile): --wrap names the functions.
// Only calls in our own code come here; libraries have the allocator itself.
#include "base/memory_account.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void __real_qsort(void *items, size_t count, size_t size,
		  int (*compare)(const void *, const void *));
void __real_qsort_r(void *items, size_t count, size_t size,
		    int (*compare)(const void *, const void *, void *), void *context);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
void __wrap_free(void *memory);
void __wrap_qsort(void *items, size_t count, size_t size,
		  int (*compare)(const void *, const void *));
void __wrap_qsort_r(void *items, size_t count, size_t size,
		    int (*compare)(const void *, const void *, void *), void *context);

/** As large as malloc() made it, so that free() gives back as much. Nothing has touched the memory yet. */
static void *account_for(void *memory)
{
	if (!memory || memory_account_take(malloc_usable_size(memory)))
		return memory;
	__real_free(memory);
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t size)
{
	return account_for(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return account_for(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
	if (!memory || !memory_account_is_open())
		return account_for(__real_realloc(memory, size));

	size_t before = malloc_usable_size(memory), growth = size > before ? size - before : 0;
	if (!memory_account_take(growth)) {
		errno = ENOMEM;
		return NULL;
	}
	void *moved = __real_realloc(memory, size);
	if (!moved) {
		memory_account_give(size ? growth : before);
		return NULL;
	}
	size_t after = malloc_usable_size(moved);
	if (after > before + growth)
		memory_account_take(after - before - growth); // a rounding, which is there
	else
		memory_account_give(before + growth - after);
	return moved;
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return __wrap_realloc(memory, bytes);
}

char *__wrap_strndup(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	char *copy = __wrap_malloc(length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, strlen(text));
}

void __wrap_free(void *memory)
{
	if (memory && memory_account_is_open())
		memory_account_give(malloc_usable_size(memory));
	__real_free(memory);
}

/** glibc sorts in a copy: of large items, of pointers to them. A sort that is refused is done all the same; the work fails then. */
static size_t copy_of(size_t count, size_t size)
{
	return size > 4 * sizeof(void *) ? 2 * count * sizeof(void *) : count * size;
}

void __wrap_qsort(void *items, size_t count, size_t size,
		  int (*compare)(const void *, const void *))
{
	size_t bytes = copy_of(count, size);
	bool is_taken = memory_account_take(bytes);

	__real_qsort(items, count, size, compare);
	if (is_taken)
		memory_account_give(bytes);
}

void __wrap_qsort_r(void *items, size_t count, size_t size,
		    int (*compare)(const void *, const void *, void *), void *context)
{
	size_t bytes = copy_of(count, size);
	bool is_taken = memory_account_take(bytes);

	__real_qsort_r(items, count, size, compare, context);
	if (is_taken)
		memory_account_give(bytes);
}
