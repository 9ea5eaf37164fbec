// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/seen_agents.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"

struct seen_agents {
	pthread_mutex_t lock; // guards the fields below
	struct seen_agent agents[SEEN_AGENTS_MAX];
	uint32_t count;
};

struct seen_agents *seen_agents_new(void)
{
	struct seen_agents *agents = calloc(1, sizeof(*agents));

	if (agents)
		pthread_mutex_init(&agents->lock, NULL);
	return agents;
}

void seen_agents_free(struct seen_agents *agents)
{
	if (!agents)
		return;
	pthread_mutex_destroy(&agents->lock);
	free(agents);
}

/* Who sent a batch. Machine and start are the message's own claim, the tenant is of the credential. */
struct sender {
	const struct batch_id *batch;
	char tenant[ACCESS_TENANT_BYTES];
};

static bool is_of_machine(const struct seen_agent *agent, const struct sender *sender)
{
	return id128_equal(agent->machine, sender->batch->agent) &&
	       strcmp(agent->tenant, sender->tenant) == 0;
}

static bool is_start_of(const struct seen_agent *agent, const struct sender *sender)
{
	return id128_equal(agent->boot, sender->batch->boot) && is_of_machine(agent, sender);
}

/** The agent's entry, or a free one for it, or the least recently seen. */
static struct seen_agent *find(struct seen_agents *agents, const struct sender *sender)
{
	struct seen_agent *oldest = &agents->agents[0];

	for (uint32_t i = 0; i < agents->count; i++) {
		struct seen_agent *agent = &agents->agents[i];

		if (is_start_of(agent, sender))
			return agent;
		if (agent->seen_ns < oldest->seen_ns)
			oldest = agent;
	}
	if (agents->count < SEEN_AGENTS_MAX)
		return &agents->agents[agents->count++];
	return oldest;
}

/**
 * A new agent has most likely replaced the one before on its machine. If both run, the other counts again
 * once it sends.
 */
static void replace(struct seen_agents *agents, const struct sender *sender)
{
	for (uint32_t i = 0; i < agents->count; i++)
		if (is_of_machine(&agents->agents[i], sender))
			agents->agents[i].replaced = true;
}

static void copy_label(const struct profile *profile, const char *name, char *text, size_t size)
{
	const char *value = NULL;

	for (uint32_t i = 0; i < profile->series_count && !value; i++)
		value = labels_get(&profile->series[i].labels, name);
	snprintf(text, size, "%s", value ? value : "");
}

void seen_agents_note(struct seen_agents *agents, const struct batch_id *batch,
		      const struct profile *profile, uint64_t now_ns)
{
	struct sender sender = { .batch = batch };

	copy_label(profile, LABEL_TENANT, sender.tenant, sizeof(sender.tenant));
	pthread_mutex_lock(&agents->lock);
	struct seen_agent *agent = find(agents, &sender);
	if (!is_start_of(agent, &sender)) {
		replace(agents, &sender);
		*agent = (struct seen_agent){ .machine = batch->agent,
					      .boot = batch->boot,
					      .first_ns = now_ns };
		memcpy(agent->tenant, sender.tenant, sizeof(agent->tenant));
	}
	copy_label(profile, LABEL_NODE, agent->node, sizeof(agent->node));
	snprintf(agent->version, sizeof(agent->version), "%s", batch->agent_version);
	agent->seen_ns = now_ns;
	agent->replaced = false;
	agent->batches++;
	agent->samples += profile->sample_count;
	pthread_mutex_unlock(&agents->lock);
}

uint32_t seen_agents_count(struct seen_agents *agents, uint64_t since_ns)
{
	uint32_t count = 0;

	pthread_mutex_lock(&agents->lock);
	for (uint32_t i = 0; i < agents->count; i++)
		count += agents->agents[i].seen_ns >= since_ns && !agents->agents[i].replaced;
	pthread_mutex_unlock(&agents->lock);
	return count;
}

static int compare_agents(const void *left, const void *right)
{
	const struct seen_agent *a = left, *b = right;
	int order = strcmp(a->node, b->node);

	return order ? order : memcmp(&a->machine, &b->machine, sizeof(a->machine));
}

int seen_agents_list(struct seen_agents *agents, const char *tenant, struct seen_agent **ret_agents,
		     uint32_t *ret_count)
{
	bool is_all = strcmp(tenant, ACCESS_ALL_TENANTS) == 0;
	struct seen_agent *list;
	uint32_t count = 0;

	pthread_mutex_lock(&agents->lock);
	list = calloc(agents->count + 1, sizeof(*list));
	for (uint32_t i = 0; list && i < agents->count; i++) {
		const struct seen_agent *agent = &agents->agents[i];

		if (!agent->replaced && (is_all || strcmp(agent->tenant, tenant) == 0))
			list[count++] = *agent;
	}
	pthread_mutex_unlock(&agents->lock);
	if (!list)
		return -ENOMEM;
	qsort(list, count, sizeof(*list), compare_agents);
	*ret_agents = list;
	*ret_count = count;
	return 0;
}
