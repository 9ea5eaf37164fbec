// SPDX-License-Identifier: Apache-2.0
// Sums per node of a chunk's rows: read where the chunk has them and all its rows are wanted, else added up.
#pragma once

#include "collector/store/rocksdb/chunk_decoder.h"

/** Pass the sums of what @query wants to its receiver. The chunk is open. Returns as chunk_decode(). */
int chunk_decode_sums(struct chunk_decoder *decoder, const struct row_query *query);
