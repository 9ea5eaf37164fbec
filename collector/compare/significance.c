// SPDX-License-Identifier: Apache-2.0
#include "collector/compare/significance.h"

#include <math.h>
#include <stdlib.h>

void block_weights_add(struct block_weights *weights, double weight)
{
	weights->sum += weight;
	weights->squares += weight * weight;
	weights->count++;
}

void block_values_add(struct block_values *values, int64_t value, double weight)
{
	double x = (double)value;

	values->sum = (int64_t)((uint64_t)values->sum + (uint64_t)value);
	values->squares += x * x;
	values->products += x * weight;
	values->seen += value != 0;
}

/** The sum of (x - ratio w)2. Rounding may leave a little less than nothing. */
static double residuals(const struct block_values *values, const struct block_weights *weights,
			double ratio)
{
	double sum =
		values->squares - 2 * ratio * values->products + ratio * ratio * weights->squares;

	return sum > 0 ? sum : 0;
}

/** What one degree of freedom, used up by a mean, takes from a sum of squares. */
static double correction(uint32_t count)
{
	return count > 1 ? (double)count / (count - 1) : 1;
}

static double variance_by_side(const struct block_values *values,
			       const struct block_weights *weights)
{
	double ratio = (double)values->sum / weights->sum;

	return residuals(values, weights, ratio) / (weights->sum * weights->sum) *
	       correction(weights->count);
}

double significance_p(const struct block_values values[2], const struct block_weights weights[2],
		      bool *ret_enough)
{
	double sum = weights[0].sum + weights[1].sum;

	*ret_enough = weights[0].sum > 0 && weights[1].sum > 0 &&
		      values[0].seen + values[1].seen >= SIGNIFICANCE_BLOCKS_MIN;
	if (!*ret_enough)
		return 1;

	double both = ((double)values[0].sum + (double)values[1].sum) / sum;
	double pooled = (residuals(&values[0], &weights[0], both) +
			 residuals(&values[1], &weights[1], both)) /
			sum * correction(weights[0].count + weights[1].count) *
			(1 / weights[0].sum + 1 / weights[1].sum);
	double by_side = variance_by_side(&values[0], &weights[0]) +
			 variance_by_side(&values[1], &weights[1]);
	double variance = pooled > by_side ? pooled : by_side;
	double difference = fabs((double)values[1].sum / weights[1].sum -
				 (double)values[0].sum / weights[0].sum);

	if (variance <= 0)
		return 1; // the root's share: it cannot differ
	return erfc(difference / sqrt(2 * variance));
}

static int compare_ps(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double significance_limit(double *ps, uint32_t count, double false_discoveries)
{
	double limit = -1;

	qsort(ps, count, sizeof(*ps), compare_ps);
	for (uint32_t i = 0; i < count; i++)
		if (ps[i] <= false_discoveries * (i + 1) / count)
			limit = ps[i];
	return limit;
}
