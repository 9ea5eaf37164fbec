// SPDX-License-Identifier: Apache-2.0
// Is a difference of two profiles more than chance? Each side's time is cut into blocks, and the value of a frame in
// each block is one observation, weighted by the block's exposure (rate) or by its total (share). What a frame's
// values scatter from block to block is the noise that its change is measured against.
//
// Counts of samples would not do: stored values are weighted (off-CPU time is scaled, a tick counts as the time since the
// last one), and consecutive ticks of one long call are no independent observations. Sums over blocks are, as long as what
// a program does repeats within a block: the method of batch means (Law, Simulation Modeling and Analysis, 9.5.3).
//
// A side's value is a ratio of sums, r = X / W. Under the hypothesis of no change both sides have the same r, and its
// residuals e = x - r w have a mean of 0 (Cochran, Sampling Techniques, 3rd ed., 2.11 and 6.3). Two estimates of the
// difference's variance are made, and the larger one counts:
//   pooled   s2 (1 / Wa + 1 / Wb) with s2 = sum e2 / (Wa + Wb) over both sides: right where one side is short or has
//            no such frame at all, and so no scatter of its own;
//   by side  sum (x - ra w)2 / Wa2 + sum (x - rb w)2 / Wb2, as Welch's: right where one side scatters more.
// p is that of a normal deviate, two-sided.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	// Fewer blocks with a value, of both sides together, are no evidence: with 5, all on one side, a fair coin
	// does the same in 1 of 16 tries.
	SIGNIFICANCE_BLOCKS_MIN = 6,
};

/** Of the differences marked as significant, at most this part is expected to be chance. */
#define SIGNIFICANCE_FALSE_DISCOVERIES 0.05

/** The weights of a side's blocks. */
struct block_weights {
	double sum, squares;
	uint32_t count; // blocks that count
};

/** A frame's values in a side's blocks. A zeroed struct is none. */
struct block_values {
	int64_t sum; // wraps
	double squares;
	double products; // of value and weight
	uint32_t seen;   // blocks with a value other than 0
};

void block_weights_add(struct block_weights *weights, double weight);
void block_values_add(struct block_values *values, int64_t value, double weight);

/**
 * The probability that two sides without a difference differ as much as these or more: from 0 to 1, and 1 where there
 * is too little to say. *ret_enough: SIGNIFICANCE_BLOCKS_MIN is reached, and both sides have weight.
 */
double significance_p(const struct block_values values[2], const struct block_weights weights[2],
		      bool *ret_enough);

/**
 * The largest p that is significant among @count of them, which are sorted in place; -1: none is. Of many frames
 * some differ by chance; this bounds the part of such among those marked (Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995).
 */
double significance_limit(double *ps, uint32_t count, double false_discoveries);
