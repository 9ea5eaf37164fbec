// SPDX-License-Identifier: Apache-2.0
// What the benchmarks' and virtual agents' programs share on their command lines: options, numbers, and an end with a word.
#pragma once

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
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

/** @text as a number from @min to @max, or the end. */
static inline uint64_t number_from(const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t number = strtoull(text, &end, 10);

	if (!*text || *end || number < min || number > max)
		die("%s: \"%s\" is not a number from %llu to %llu", program_invocation_short_name,
		    text, (unsigned long long)min, (unsigned long long)max);
	return number;
}

static inline uint64_t number_of(const char *text, uint64_t max)
{
	return number_from(text, 1, max);
}

enum { ARGUMENTS_MAX = 16 };

/** An option, and the one of text, number and flag that it sets. */
struct argument {
	const char *name;
	const char **text;
	uint32_t *number;
	uint32_t min, max;
	bool *flag;
};

/** Set what the options of the command line say. With others, or with anything else, the program ends with its @usage. */
static inline void read_arguments(int argc, char **argv, const struct argument *arguments,
				  uint32_t count, const char *usage)
{
	struct option options[ARGUMENTS_MAX + 1] = { 0 };
	int at, found;

	for (uint32_t i = 0; i < count && i < ARGUMENTS_MAX; i++)
		options[i] = (struct option){ .name = arguments[i].name,
					      .has_arg = arguments[i].flag ? no_argument
									   : required_argument };
	while ((found = getopt_long(argc, argv, "", options, &at)) == 0) {
		if (arguments[at].text)
			*arguments[at].text = optarg;
		else if (arguments[at].number)
			*arguments[at].number =
				(uint32_t)number_from(optarg, arguments[at].min, arguments[at].max);
		else
			*arguments[at].flag = true;
	}
	if (found != -1 || optind != argc)
		die("usage: %s %s", program_invocation_short_name, usage);
}
