// SPDX-License-Identifier: Apache-2.0
// Backups: `cairn-collector --backup FOLDER` asks the collector that has the store open, or makes the
// backup itself where none runs. It asks by a file in the store's directory: whoever may write there may
// have a backup, and nobody else.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "collector/store/store.h"

/** Back up the store in @data to @folder. Returns when it is done. */
int backup_make(const char *data, const char *folder, struct error *err);

/** Makes the backups that are asked for. */
struct backup_service {
	struct store *store;
	const char *data;
	bool has_thread;
	pthread_t thread;
	atomic_bool running;
};

/** Start a backup if one is asked for and none runs. Call it about once a second. */
void backup_service_poll(struct backup_service *service);
/** Wait for a running backup. */
void backup_service_close(struct backup_service *service);
