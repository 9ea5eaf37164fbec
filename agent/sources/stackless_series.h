// SPDX-License-Identifier: Apache-2.0
// Series without stacks: CPU throttling and OOM kills of cgroups, memory usage of processes. They come with
// the sources that they belong to.
#pragma once

#include "agent/sources/source.h"

extern const struct source stackless_series_source;
