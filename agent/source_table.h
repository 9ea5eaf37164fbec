// SPDX-License-Identifier: Apache-2.0
// All sources.
#pragma once

#include "agent/sources/source.h"

/** In the order in which they are opened; NULL ends them. */
extern const struct source *const source_table[];
