// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/symbols/demangle_rust.h"
#include "base/utf8.h"

/*
 * Work that libiberty does without printing anything is not stopped by the limit on output. Two
 * kinds can double with each part of a name and are refused beyond what compilers write:
 * conversion operators within each other (cv: each may be parsed twice), and pack expansions
 * (Dp, sp: all parts are searched) where earlier parts are referred to (S_, T_) often.
 */
enum { CONVERSIONS_MAX = 4, PACK_REFERENCES_MAX = 24 };

struct output {
	char *text;
	size_t size;
	jmp_buf full;
};

static void append_output(const char *bytes, size_t size, void *opaque)
{
	struct output *output = opaque;

	if (size >= DEMANGLED_BYTES_MAX - output->size)
		longjmp(output->full, 1);
	if (size) // libiberty prints empty parts from NULL
		memcpy(output->text + output->size, bytes, size);
	output->size += size;
}

/*
 * The next character that may be grammar: names, which have their length before them, are passed
 * over. Other numbers in a mangled name end in '_' or 'E', so names that begin so are looked through.
 */
static const char *next_token(const char *at)
{
	size_t digits = strspn(at, "0123456789"), size = strlen(at), length = 0;

	if (!digits || at[digits] == '_' || at[digits] == 'E')
		return at + (digits ? digits : 1);
	for (size_t i = 0; i < digits && length < size; i++)
		length = length * 10 + (size_t)(at[i] - '0');
	return at + (length <= size - digits ? digits + length : digits);
}

static bool is_reference(const char *at)
{
	size_t digits = strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return (*at == 'S' || *at == 'T') && at[1 + digits] == '_';
}

static bool may_expand_silently(const char *mangled)
{
	uint32_t conversions = 0, references = 0, packs = 0;

	for (const char *at = mangled; *at; at = next_token(at)) {
		conversions += strncmp(at, "cv", 2) == 0;
		packs += strncmp(at, "Dp", 2) == 0 || strncmp(at, "sp", 2) == 0;
		references += is_reference(at);
	}
	return conversions > CONVERSIONS_MAX || (packs && references > PACK_REFERENCES_MAX);
}

/*
 * libiberty has no way to stop but its callback, and keeps all its state on the stack while it
 * prints to one: leaving by longjmp() is how a name that expands without end is cut.
 */
static bool try_demangle(const char *mangled, char *ret_name)
{
	struct output output = { .text = ret_name };
	int done;

	if (strncmp(mangled, "_R", 2) == 0)
		return demangle_rust(mangled, ret_name, DEMANGLED_BYTES_MAX);
	if (strncmp(mangled, "_Z", 2) != 0 || may_expand_silently(mangled))
		return false;
	if (setjmp(output.full))
		return false;
	// Rust's older names are Itanium names that end in a hash: they are tried first.
	done = rust_demangle_callback(mangled, DMGL_RUST, append_output, &output);
	if (!done) {
		output.size = 0;
		done = cplus_demangle_v3_callback(mangled, DMGL_NO_OPTS, append_output, &output);
	}
	ret_name[output.size] = '\0';
	return done && output.size;
}

static void copy_plain(const char *name, char *ret_name)
{
	size_t size = strlen(name);

	if (size >= DEMANGLED_BYTES_MAX)
		size = DEMANGLED_BYTES_MAX - 1;

	memcpy(ret_name, name, size);
	ret_name[size] = '\0';
}

void demangle(const char *mangled, char ret_name[DEMANGLED_BYTES_MAX])
{
	char name[MANGLED_BYTES_MAX];
	size_t size = strcspn(mangled, "@"); // name@VERSION, name@@VERSION

	if (size == 0 || size >= sizeof(name)) {
		copy_plain(mangled, ret_name);
	} else {
		memcpy(name, mangled, size);
		name[size] = '\0';
		if (!try_demangle(name, ret_name))
			copy_plain(name, ret_name);
	}
	utf8_clean(ret_name);
}
