// SPDX-License-Identifier: Apache-2.0
// What the benchmarks' programs share on their command lines: numbers, and an end with a word.
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/** @text as a number from 1 to @max, or the end. */
static inline uint64_t number_of(const char *text, uint64_t max)
{
	char *end;
	uint64_t number = strtoull(text, &end, 10);

	if (!*text || *end || !number || number > max)
		die("%s: \"%s\" is not a number from 1 to %llu", program_invocation_short_name,
		    text, (unsigned long long)max);
	return number;
}
