// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/batch_door.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "proto/export_message.h"

/** Nobody else says whose a series is, and what the store made of it. */
static int check_labels(const struct profile *profile, struct error *err)
{
	for (uint32_t i = 0; i < profile->series_count; i++)
		if (labels_get(&profile->series[i].labels, LABEL_OTHER))
			return error_set(err, -EINVAL,
					 "series[%u]: the label " LABEL_OTHER " is the collector's",
					 i);
	return 0;
}

int batch_push(struct doors *doors, const struct door_request *request,
	       struct door_outcome *ret_outcome, struct error *err)
{
	_cleanup_(door_work_end) struct door_work work = { .doors = doors };
	struct profile *profile = NULL;
	struct batch_id batch;
	int rc = door_work_begin(&work, doors, request->identity, request->bytes, request->size,
				 err);

	if (!rc)
		rc = export_request_decode(work.bytes, work.size, &batch, &profile, NULL, err);
	if (rc == -EPROTONOSUPPORT)
		err->code = rc = -EBADMSG; // no use in sending it again
	if (rc)
		return rc;
	profile_free(work.importer.profile);
	work.importer.profile = profile;
	work.importer.samples = profile->sample_count;
	rc = check_labels(profile, err);
	const struct store_batch_id id = { .agent = batch.agent,
					   .boot = batch.boot,
					   .sequence = batch.sequence };
	return rc ? rc : door_store_as(&work, request, &id, ret_outcome, err);
}
