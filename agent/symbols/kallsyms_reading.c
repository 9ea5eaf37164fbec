// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/kallsyms_reading.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct kallsyms_reading {
	pthread_t thread;
	bool has_thread;
	struct kallsyms *kallsyms;
	struct error error;
	int rc;
};

static void *read_symbols(void *context)
{
	struct kallsyms_reading *reading = context;

	reading->rc = kallsyms_open(NULL, &reading->kallsyms, &reading->error);
	return NULL;
}

struct kallsyms_reading *kallsyms_reading_begin(void)
{
	struct kallsyms_reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	reading->has_thread = pthread_create(&reading->thread, NULL, read_symbols, reading) == 0;
	return reading;
}

int kallsyms_reading_end(struct kallsyms_reading *reading, struct kallsyms **ret_kallsyms,
			 struct error *err)
{
	if (reading->has_thread)
		pthread_join(reading->thread, NULL);
	else
		read_symbols(reading);
	int rc = reading->rc;
	if (rc && err)
		*err = reading->error;
	if (!rc)
		*ret_kallsyms = take(reading->kallsyms);
	free(reading);
	return rc;
}
