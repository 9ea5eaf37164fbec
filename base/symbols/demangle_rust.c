// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/demangle_rust.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
	STEPS_MAX = 10000, // parts visited; compilers' longest names need a few thousand
	DEPTH_MAX = 200,
	LIFETIMES_MAX = 64, // bound at once
};

/* One name on its way from @at to @out. A failure sticks: later steps do nothing. */
struct rust_name {
	const char *start; // after "_R": references count from here
	const char *at;
	const char *end;
	char *out;
	size_t out_size, out_capacity;
	uint32_t steps, depth;
	uint64_t lifetimes; // bound by the "for<...>" around here
	bool quiet;         // read, but not write
	bool failed;
};

static void read_path(struct rust_name *name, bool in_value);
static void read_type(struct rust_name *name);
static void read_const(struct rust_name *name);

/* ---- characters ---------------------------------------------------------------------------- */

static void fail(struct rust_name *name)
{
	name->failed = true;
	name->at = name->end;
}

static char peek(const struct rust_name *name)
{
	return name->at < name->end ? *name->at : '\0';
}

static char take_character(struct rust_name *name)
{
	if (name->at == name->end) {
		fail(name);
		return '\0';
	}
	return *name->at++;
}

static bool take_if(struct rust_name *name, char wanted)
{
	if (peek(name) != wanted || name->failed)
		return false;
	name->at++;
	return true;
}

static void put_bytes(struct rust_name *name, const char *bytes, size_t size)
{
	if (name->quiet || name->failed)
		return;
	if (size >= name->out_capacity - name->out_size) {
		fail(name);
		return;
	}
	memcpy(name->out + name->out_size, bytes, size);
	name->out_size += size;
}

static void put(struct rust_name *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static void put_number(struct rust_name *name, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	put(name, text);
}

/* Each part that is read is a step down; what it returns is for leave(). */
static bool enter(struct rust_name *name)
{
	if (++name->steps > STEPS_MAX || ++name->depth > DEPTH_MAX)
		fail(name);
	return !name->failed;
}

static void leave(struct rust_name *name)
{
	name->depth--;
}

/* ---- numbers and identifiers --------------------------------------------------------------- */

static int digit_62(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'Z' ? c - 'A' + 36 : -1;
}

/* "_" is 0, "0_" is 1, "1_" is 2 ... */
static uint64_t read_base_62(struct rust_name *name)
{
	uint64_t number = 0;

	if (take_if(name, '_'))
		return 0;
	while (!name->failed && !take_if(name, '_')) {
		int digit = digit_62(take_character(name));

		if (digit < 0 || number > UINT64_MAX / 62 - 62)
			fail(name);
		else
			number = number * 62 + (uint64_t)digit;
	}
	return number + 1;
}

/* An optional number after @tag: 0 without it, else one more than written. */
static uint64_t read_optional(struct rust_name *name, char tag)
{
	return take_if(name, tag) ? read_base_62(name) + 1 : 0;
}

static uint64_t read_decimal(struct rust_name *name)
{
	uint64_t number = 0;

	if (take_if(name, '0'))
		return 0;
	if (!isdigit((unsigned char)peek(name)))
		fail(name);
	while (isdigit((unsigned char)peek(name)) && number < 100000)
		number = number * 10 + (uint64_t)(take_character(name) - '0');
	return number;
}

struct identifier {
	const char *bytes;
	size_t size;
	bool punycode;
};

static struct identifier read_plain_identifier(struct rust_name *name)
{
	struct identifier identifier = { .bytes = name->at };

	identifier.punycode = take_if(name, 'u');
	uint64_t size = read_decimal(name);
	take_if(name, '_');
	if (size > (uint64_t)(name->end - name->at)) {
		fail(name);
		return identifier;
	}
	identifier.bytes = name->at;
	identifier.size = size;
	name->at += size;
	return identifier;
}

static struct identifier read_identifier(struct rust_name *name, uint64_t *ret_disambiguator)
{
	*ret_disambiguator = read_optional(name, 's');
	return read_plain_identifier(name);
}

static void put_identifier(struct rust_name *name, struct identifier identifier)
{
	if (identifier.punycode)
		put(name, "punycode{");
	put_bytes(name, identifier.bytes, identifier.size);
	if (identifier.punycode)
		put(name, "}");
}

/* ---- references and lifetimes -------------------------------------------------------------- */

/*
 * Go back to where a reference points; *ret_after is where to go on afterwards. Returns false when
 * there is nothing to do: the name is broken, or nothing is written anyway.
 */
static bool follow_reference(struct rust_name *name, const char **ret_after)
{
	const char *tag = name->at - 1;
	uint64_t place = read_base_62(name);

	if (place >= (uint64_t)(tag - name->start))
		fail(name);
	if (name->failed || name->quiet)
		return false;
	*ret_after = name->at;
	name->at = name->start + place;
	return true;
}

static void return_from_reference(struct rust_name *name, const char *after)
{
	if (!name->failed)
		name->at = after;
}

static void put_lifetime(struct rust_name *name, uint64_t index)
{
	if (index == 0) {
		put(name, "'_");
		return;
	}
	if (index > name->lifetimes) {
		fail(name);
		return;
	}
	uint64_t depth = name->lifetimes - index;
	char letter[] = { '\'', (char)('a' + depth % 26), '\0' };

	put(name, depth < 26 ? letter : "'_");
	if (depth >= 26)
		put_number(name, depth);
}

/* "for<'a, 'b> " before a function type or a trait. Returns how many lifetimes it binds. */
static uint64_t read_binder(struct rust_name *name)
{
	uint64_t count = read_optional(name, 'G');

	if (!count)
		return 0;
	if (name->lifetimes + count > LIFETIMES_MAX) {
		fail(name);
		return 0;
	}
	put(name, "for<");
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			put(name, ", ");
		name->lifetimes++;
		put_lifetime(name, 1);
	}
	put(name, "> ");
	return count;
}

/* ---- paths --------------------------------------------------------------------------------- */

static void read_generic_argument(struct rust_name *name)
{
	if (take_if(name, 'L'))
		put_lifetime(name, read_base_62(name));
	else if (take_if(name, 'K'))
		read_const(name);
	else
		read_type(name);
}

/* Up to 'E', between commas. Returns how many there were. */
static uint32_t read_list(struct rust_name *name, void (*read_one)(struct rust_name *name))
{
	uint32_t count = 0;

	while (!name->failed && !take_if(name, 'E')) {
		if (count++)
			put(name, ", ");
		read_one(name);
	}
	return count;
}

/* Where an implementation stands, which its type says better. */
static void skip_implementation_path(struct rust_name *name)
{
	bool quiet = name->quiet;

	name->quiet = true;
	read_optional(name, 's');
	read_path(name, false);
	name->quiet = quiet;
}

static void put_special(struct rust_name *name, char space, struct identifier identifier,
			uint64_t disambiguator)
{
	put(name, "::{");
	if (space == 'C')
		put(name, "closure");
	else if (space == 'S')
		put(name, "shim");
	else
		put_bytes(name, &space, 1);
	if (identifier.size) {
		put(name, ":");
		put_identifier(name, identifier);
	}
	put(name, "#");
	put_number(name, disambiguator);
	put(name, "}");
}

static void read_nested(struct rust_name *name, bool in_value)
{
	char space = take_character(name);
	uint64_t disambiguator;

	if (!isalpha((unsigned char)space))
		fail(name);
	read_path(name, in_value);
	struct identifier identifier = read_identifier(name, &disambiguator);
	if (isupper((unsigned char)space)) {
		put_special(name, space, identifier, disambiguator);
	} else if (identifier.size) {
		put(name, "::");
		put_identifier(name, identifier);
	}
}

static void read_qualified(struct rust_name *name, char tag)
{
	if (tag != 'Y')
		skip_implementation_path(name);
	put(name, "<");
	read_type(name);
	if (tag != 'M') {
		put(name, " as ");
		read_path(name, false);
	}
	put(name, ">");
}

static void read_generic(struct rust_name *name, bool in_value)
{
	read_path(name, in_value);
	if (in_value)
		put(name, "::");
	put(name, "<");
	read_list(name, read_generic_argument);
	put(name, ">");
}

static void read_path(struct rust_name *name, bool in_value)
{
	uint64_t disambiguator;
	const char *after;

	if (!enter(name))
		return;
	char tag = take_character(name);
	switch (tag) {
	case 'C':
		put_identifier(name, read_identifier(name, &disambiguator));
		break;
	case 'N':
		read_nested(name, in_value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		read_qualified(name, tag);
		break;
	case 'I':
		read_generic(name, in_value);
		break;
	case 'B':
		if (follow_reference(name, &after)) {
			read_path(name, in_value);
			return_from_reference(name, after);
		}
		break;
	default:
		fail(name);
	}
	leave(name);
}

/* ---- types --------------------------------------------------------------------------------- */

static const char *basic_type(char tag)
{
	static const char *const names[26] = {
		['a' - 'a'] = "i8",   ['b' - 'a'] = "bool",  ['c' - 'a'] = "char",
		['d' - 'a'] = "f64",  ['e' - 'a'] = "str",   ['f' - 'a'] = "f32",
		['h' - 'a'] = "u8",   ['i' - 'a'] = "isize", ['j' - 'a'] = "usize",
		['l' - 'a'] = "i32",  ['m' - 'a'] = "u32",   ['n' - 'a'] = "i128",
		['o' - 'a'] = "u128", ['p' - 'a'] = "_",     ['s' - 'a'] = "i16",
		['t' - 'a'] = "u16",  ['u' - 'a'] = "()",    ['v' - 'a'] = "...",
		['x' - 'a'] = "i64",  ['y' - 'a'] = "u64",   ['z' - 'a'] = "!",
	};

	return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void read_reference_type(struct rust_name *name, char tag)
{
	put(name, "&");
	if (take_if(name, 'L')) {
		uint64_t index = read_base_62(name);

		if (index) {
			put_lifetime(name, index);
			put(name, " ");
		}
	}
	if (tag == 'Q')
		put(name, "mut ");
	read_type(name);
}

/* The names of calling conventions have '_' for '-'. */
static void read_abi(struct rust_name *name)
{
	put(name, "extern \"");
	if (take_if(name, 'C')) {
		put(name, "C");
	} else {
		struct identifier abi = read_plain_identifier(name);

		for (size_t i = 0; i < abi.size && !name->failed; i++)
			put_bytes(name, abi.bytes[i] == '_' ? "-" : abi.bytes + i, 1);
	}
	put(name, "\" ");
}

static void read_function_type(struct rust_name *name)
{
	uint64_t bound = read_binder(name);

	if (take_if(name, 'U'))
		put(name, "unsafe ");
	if (take_if(name, 'K'))
		read_abi(name);
	put(name, "fn(");
	read_list(name, read_type);
	put(name, ")");
	if (!take_if(name, 'u')) { // returns ()
		put(name, " -> ");
		read_type(name);
	}
	name->lifetimes -= bound;
}

/* A trait whose '<' may stay open for its associated types. Returns whether it is open. */
static bool read_open_path(struct rust_name *name)
{
	const char *after;
	bool open = false;

	if (!enter(name))
		return false;
	if (take_if(name, 'B')) {
		if (follow_reference(name, &after)) {
			open = read_open_path(name);
			return_from_reference(name, after);
		}
	} else if (take_if(name, 'I')) {
		read_path(name, false);
		put(name, "<");
		read_list(name, read_generic_argument);
		open = true;
	} else {
		read_path(name, false);
	}
	leave(name);
	return open;
}

static void read_dyn_trait(struct rust_name *name)
{
	bool open = read_open_path(name);

	while (take_if(name, 'p')) {
		put(name, open ? ", " : "<");
		open = true;
		put_identifier(name, read_plain_identifier(name));
		put(name, " = ");
		read_type(name);
	}
	if (open)
		put(name, ">");
}

static void read_dyn_type(struct rust_name *name)
{
	put(name, "dyn ");
	uint64_t bound = read_binder(name);
	for (uint32_t count = 0; !name->failed && !take_if(name, 'E'); count++) {
		if (count)
			put(name, " + ");
		read_dyn_trait(name);
	}
	name->lifetimes -= bound;
	if (!take_if(name, 'L'))
		fail(name);
	uint64_t lifetime = read_base_62(name);
	if (lifetime) {
		put(name, " + ");
		put_lifetime(name, lifetime);
	}
}

static void read_compound_type(struct rust_name *name, char tag)
{
	const char *after;

	switch (tag) {
	case 'A':
	case 'S':
		put(name, "[");
		read_type(name);
		if (tag == 'A') {
			put(name, "; ");
			read_const(name);
		}
		put(name, "]");
		break;
	case 'T':
		put(name, "(");
		put(name, read_list(name, read_type) == 1 ? ",)" : ")");
		break;
	case 'R':
	case 'Q':
		read_reference_type(name, tag);
		break;
	case 'P':
	case 'O':
		put(name, tag == 'P' ? "*const " : "*mut ");
		read_type(name);
		break;
	case 'F':
		read_function_type(name);
		break;
	case 'D':
		read_dyn_type(name);
		break;
	case 'B':
		if (follow_reference(name, &after)) {
			read_type(name);
			return_from_reference(name, after);
		}
		break;
	default: // a path, its tag included
		name->at--;
		read_path(name, false);
	}
}

static void read_type(struct rust_name *name)
{
	if (!enter(name))
		return;
	char tag = take_character(name);
	const char *basic = basic_type(tag);
	if (basic)
		put(name, basic);
	else if (!name->failed)
		read_compound_type(name, tag);
	leave(name);
}

/* ---- constants ----------------------------------------------------------------------------- */

static void read_number(struct rust_name *name, bool is_signed)
{
	if (is_signed && take_if(name, 'n'))
		put(name, "-");
	const char *digits = name->at;
	uint64_t number = 0;
	while (isdigit((unsigned char)peek(name)) || (peek(name) >= 'a' && peek(name) <= 'f')) {
		char c = take_character(name);

		number = number << 4 |
			 (uint64_t)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
	}
	size_t size = (size_t)(name->at - digits);
	if (!take_if(name, '_')) {
		fail(name);
	} else if (size > 16) {
		put(name, "0x");
		put_bytes(name, digits, size);
	} else {
		put_number(name, number);
	}
}

static void read_bool(struct rust_name *name)
{
	char digit = take_character(name);

	if ((digit != '0' && digit != '1') || !take_if(name, '_'))
		fail(name);
	put(name, digit == '1' ? "true" : "false");
}

/* A character is shown by its number: it may be one that a name must not hold. */
static void read_char(struct rust_name *name)
{
	put(name, "'\\u{");
	const char *digits = name->at;
	while (isxdigit((unsigned char)peek(name)))
		name->at++;
	put_bytes(name, digits, (size_t)(name->at - digits));
	if (!take_if(name, '_'))
		fail(name);
	put(name, "}'");
}

static void read_const(struct rust_name *name)
{
	const char *after;

	if (!enter(name))
		return;
	char tag = take_character(name);
	if (tag == 'B') {
		if (follow_reference(name, &after)) {
			read_const(name);
			return_from_reference(name, after);
		}
	} else if (tag == 'p') {
		put(name, "_");
	} else if (tag && strchr("hmtyoj", tag)) {
		read_number(name, false);
	} else if (tag && strchr("aslxni", tag)) {
		read_number(name, true);
	} else if (tag == 'b') {
		read_bool(name);
	} else if (tag == 'c') {
		read_char(name);
	} else {
		fail(name);
	}
	leave(name);
}

/* ---- public -------------------------------------------------------------------------------- */

bool demangle_rust(const char *mangled, char *ret_name, size_t size)
{
	struct rust_name name = {
		.start = mangled + 2,
		.at = mangled + 2,
		.end = mangled + strcspn(mangled, "."), // ".llvm.123" is the linker's
		.out = ret_name,
		.out_capacity = size,
	};

	// A digit would be the version of a later encoding.
	if (strncmp(mangled, "_R", 2) != 0 || !isupper((unsigned char)mangled[2]))
		return false;
	read_path(&name, true);
	if (!name.failed && name.at < name.end) { // the crate that made this copy
		name.quiet = true;
		read_path(&name, false);
	}
	if (name.failed || name.at < name.end)
		return false;
	ret_name[name.out_size] = '\0';
	return name.out_size != 0;
}
