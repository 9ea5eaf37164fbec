// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/id128.h"

_Static_assert(UNWIND_RULES_MAX <= UINT16_MAX + 1, "numbers are kept in 16 bits");

struct unwind_rules {
	struct unwind_rule *shared;
	struct hash_table by_content;
	uint32_t users[UNWIND_RULES_MAX];    // tables that refer to it
	uint16_t released[UNWIND_RULES_MAX]; // free numbers below `used`
	uint32_t released_count;
	uint32_t used; // numbers ever used, and 0
};

struct unwind_rules *unwind_rules_new(struct unwind_rule *shared)
{
	struct unwind_rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return NULL;
	rules->shared = shared;
	rules->used = 1; // number 0: all zero, CFA_NO_TABLE
	return rules;
}

void unwind_rules_free(struct unwind_rules *rules)
{
	if (!rules)
		return;
	hash_table_deinit(&rules->by_content);
	free(rules);
}

static bool rule_equals(const void *context, uint32_t item, const void *key)
{
	const struct unwind_rules *rules = context;

	return memcmp(&rules->shared[item], key, sizeof(struct unwind_rule)) == 0;
}

static uint64_t hash_of(const struct unwind_rule *rule)
{
	return hash64_of(rule, sizeof(*rule));
}

static int add_new(struct unwind_rules *rules, const struct unwind_rule *rule, uint16_t *ret_number)
{
	bool reuse = rules->released_count > 0;
	uint32_t number = reuse ? rules->released[rules->released_count - 1] : rules->used;

	if (number >= UNWIND_RULES_MAX)
		return -ENOSPC;
	int rc = hash_table_add(&rules->by_content, hash_of(rule), number);
	if (rc)
		return rc;
	if (reuse)
		rules->released_count--;
	else
		rules->used++;
	rules->shared[number] = *rule;
	*ret_number = (uint16_t)number;
	return 0;
}

// Rule 0 is shared by all and has no count.
static int add_one(struct unwind_rules *rules, const struct unwind_rule *rule, uint16_t *ret_number)
{
	if (rule_equals(rules, 0, rule)) {
		*ret_number = 0;
		return 0;
	}

	uint32_t known =
		hash_table_find(&rules->by_content, hash_of(rule), rule_equals, rules, rule);
	if (known == HASH_TABLE_NONE) {
		int rc = add_new(rules, rule, ret_number);
		if (rc)
			return rc;
	} else {
		*ret_number = (uint16_t)known;
	}
	rules->users[*ret_number]++;
	return 0;
}

int unwind_rules_add(struct unwind_rules *rules, const struct unwind_rule *wanted, uint32_t count,
		     uint16_t *ret_numbers)
{
	for (uint32_t i = 0; i < count; i++) {
		int rc = add_one(rules, &wanted[i], &ret_numbers[i]);
		if (rc) {
			unwind_rules_remove(rules, ret_numbers, i);
			return rc;
		}
	}
	return 0;
}

void unwind_rules_remove(struct unwind_rules *rules, const uint16_t *numbers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint16_t number = numbers[i];

		if (!number || --rules->users[number])
			continue;
		hash_table_remove(&rules->by_content, hash_of(&rules->shared[number]), number);
		rules->released[rules->released_count++] = number;
	}
}

uint32_t unwind_rules_count(const struct unwind_rules *rules)
{
	return rules->used - rules->released_count;
}
