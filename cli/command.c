// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config/config_quantity.h"
#include "base/edit_distance.h"

#define INTERVAL_NS_MAX (7 * 24 * 3600 * NS_PER_SECOND)

enum { NEAR_EDITS_MAX = 2 };

static int parse_seconds(const char *text, uint64_t *ret_ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !isfinite(seconds) || seconds < 0 ||
	    seconds > (double)INTERVAL_NS_MAX / NS_PER_SECOND)
		return -EINVAL;
	*ret_ns = (uint64_t)(seconds * NS_PER_SECOND);
	return 0;
}

int interval_parse(const char *flag, const char *text, uint64_t ns_min, uint64_t *ret_ns,
		   struct error *err)
{
	uint64_t ns = 0;

	if (parse_seconds(text, &ns) && duration_parse(text, &ns))
		return error_set(err, -EINVAL,
				 "%s: \"%.40s\" is no duration: pass seconds (10) or a "
				 "number with its unit (500ms, 2m)",
				 flag, text);
	if (ns < ns_min || ns > INTERVAL_NS_MAX)
		return error_set(err, -EINVAL,
				 "%s: %.40s is out of range: from %g seconds to 7 days", flag, text,
				 (double)ns_min / NS_PER_SECOND);
	*ret_ns = ns;
	return 0;
}

int command_exit(const char *command, int rc, const struct error *err)
{
	if (!rc)
		return EXIT_OK;
	fprintf(stderr, "%s: %s\n", command, err->text);
	return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

const struct command *command_find(const struct command *commands, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

const struct command *command_nearest(const struct command *commands, uint32_t count,
				      const char *name)
{
	const struct command *nearest = NULL;
	uint32_t least = NEAR_EDITS_MAX + 1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t edits = edit_distance(name, commands[i].name);

		if (edits < least) {
			least = edits;
			nearest = &commands[i];
		}
	}
	return nearest;
}
