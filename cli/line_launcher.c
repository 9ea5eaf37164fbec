// SPDX-License-Identifier: Apache-2.0
#include "cli/line_launcher.h"

#include <stdio.h>

struct confined_launcher *line_launcher_start(bool wanted, const char *command)
{
	struct confined_launcher *launcher = NULL;
	struct error err = { 0 };

	if (wanted && confined_launcher_start(&launcher, &err))
		fprintf(stderr,
			"%s: source lines: not read: the sandbox does not start: %s; frames show "
			"functions only\n",
			command, err.text);
	return launcher;
}
