// SPDX-License-Identifier: Apache-2.0
// Sums per node of a chunk's rows: read where the chunk has them and all its rows are wanted, else added up.
#pragma once

#include "collector/store/rocksdb/chunk_decoder.h"

/** Does @query want the sums of all the chunk's rows, and has the chunk them? */
bool chunk_has_sums(const struct chunk_decoder *decoder, const struct row_query *query);

/** Pass the sums of what @query wants to its receiver. The chunk is open, and reads_sums set. Returns as chunk_decode(). */
int chunk_decode_sums(struct chunk_decoder *decoder, const struct row_query *query);
