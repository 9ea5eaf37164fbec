// SPDX-License-Identifier: Apache-2.0
// Cairn's own ExportRequest over HTTP, as `cairn push` sends the files that it has read. It counts once by its agent id, boot id and
// sequence, and defines all of its stacks.
#pragma once

#include "collector/doors/doors.h"

/** Returns as push_pprof(). */
int batch_push(struct doors *doors, const struct door_request *request,
	       struct door_outcome *ret_outcome, struct error *err);
