// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/thread_label.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

void thread_label_exact(const char *name, char ret_label[THREAD_LABEL_BYTES])
{
	memset(ret_label, 0, THREAD_LABEL_BYTES);
	memcpy(ret_label, name, strnlen(name, THREAD_NAME_BYTES));
	utf8_clean(ret_label);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Not isalpha(): a byte of UTF-8 is part of a word. */
static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

void thread_label_of(const char *name, const char *process, char ret_label[THREAD_LABEL_BYTES])
{
	char exact[THREAD_LABEL_BYTES], *to = ret_label;

	thread_label_exact(name, exact);
	memset(ret_label, 0, THREAD_LABEL_BYTES);
	if (process && strcmp(exact, process) == 0) {
		memcpy(ret_label, exact, THREAD_LABEL_BYTES);
		return;
	}
	for (const char *at = exact; *at;) {
		size_t digits = strspn(at, "0123456789");
		bool is_number = digits && (!at[digits] || at == exact || !is_word(at[-1]));

		if (is_number) {
			*to++ = 'N';
			at += digits;
			continue;
		}
		for (size_t i = digits ? digits : 1; i; i--)
			*to++ = *at++;
	}
}
