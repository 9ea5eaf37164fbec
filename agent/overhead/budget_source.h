// SPDX-License-Identifier: Apache-2.0
// The overhead budget as a source: what its knobs do to the other sources.
#pragma once

#include "agent/sources/source.h"

struct sources;

/**
 * A boost began, changed or ended: sample at @frequency_hz, and keep what runs now within @percent of one core; 0: the
 * agent's own budget; less than 0: budget_boost_percent(). Without a governor nothing bounds it.
 */
void budget_source_boost(struct sources *sources, uint32_t frequency_hz, double percent);

extern const struct source budget_source;
