// SPDX-License-Identifier: Apache-2.0
// The overhead budget as a source: what its knobs do to the other sources.
#pragma once

#include "agent/sources/source.h"

extern const struct source budget_source;
