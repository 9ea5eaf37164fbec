// SPDX-License-Identifier: Apache-2.0
// pprof and Pyroscope's ways to push: a pprof body, /ingest, and push.v1.PusherService/Push. All return 0 with the outcome; a
// negative errno with @err: -EBADMSG and -EINVAL (what is wrong with it), -ENOTSUP (a format that is not read), or as
// door_work_begin() and door_store().
#pragma once

#include "collector/doors/doors.h"

/**
 * The body is a pprof profile. Parameters: service, name (of the profile), from and to (Unix time); all others are labels.
 */
int push_pprof(struct doors *doors, const struct door_request *request,
	       struct door_outcome *ret_outcome, struct error *err);

/**
 * Pyroscope's /ingest: name=app{label=value,...}, from, until, format, sampleRate, units; the body, or its part "profile", is pprof
 * or folded stacks.
 */
int push_ingest(struct doors *doors, const struct door_request *request,
		struct door_outcome *ret_outcome, struct error *err);

/** push.v1.PushRequest, protobuf or JSON by its Content-Type: series of pprof profiles. All of it is one batch. */
int push_series(struct doors *doors, const struct door_request *request,
		struct door_outcome *ret_outcome, struct error *err);
