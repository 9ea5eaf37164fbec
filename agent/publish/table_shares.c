// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/table_shares.h"

void table_shares_add(struct table_shares *shares, struct table_share table)
{
	shares_take(&shares->held, table.payer, table.bytes);
}

void table_shares_remove(struct table_shares *shares, struct table_share table)
{
	shares_give_back(&shares->held, table.payer, table.bytes);
}

static uint64_t with(const struct table_shares *shares, struct table_share wanting)
{
	return shares_of(&shares->held, wanting.payer) + wanting.bytes;
}

bool table_shares_may_push_out(const struct table_shares *shares, struct table_share wanting,
			       struct table_share table)
{
	return wanting.payer == table.payer || with(shares, wanting) <= shares->bytes_max / 2;
}

bool table_shares_lets_in(const struct table_shares *shares, struct table_share wanting,
			  struct table_share table)
{
	uint64_t held = shares_of(&shares->held, table.payer);

	if (!table.payer || table.payer == wanting.payer)
		return false;
	// What several use serves more than one.
	if (table.payer == SHARES_SEVERAL && held <= shares->bytes_max / 2)
		return false;
	return held >= table.bytes + with(shares, wanting);
}
