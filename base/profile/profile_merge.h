// SPDX-License-Identifier: Apache-2.0
// Merges profiles: a recording of many export intervals becomes one before it is written.
#pragma once

#include "base/error.h"
#include "base/profile/profile.h"

/**
 * Add the samples of @from to @into. Series are joined by labels and type, locations and stacks by
 * their ids. Time within the range is lost: slots become 0 and equal samples are joined, so
 * that @into grows with distinct stacks, not with time. Its range is widened to cover @from's.
 *
 * Returns 0; -ENOMEM; -E2BIG with @err naming the limit that was hit. After a failure @into is
 * valid and holds a part of @from.
 */
int profile_merge(struct profile *into, const struct profile *from, struct error *err);

/**
 * The same, but samples keep their slots, which have to be as long in both, and intervals their ends: @into grows with
 * time. Equal samples of the two are not joined.
 */
int profile_merge_slots(struct profile *into, const struct profile *from, struct error *err);
