// SPDX-License-Identifier: Apache-2.0
#include "agent/boost/boost_mailbox.h"

#include <string.h>

void boost_mailbox_put(struct boost_mailbox *mailbox, const struct boost *boosts, uint32_t count,
		       uint64_t now_ns)
{
	pthread_mutex_lock(&mailbox->mutex);
	if (count)
		memcpy(mailbox->boosts, boosts, count * sizeof(*boosts));
	mailbox->count = count;
	mailbox->received_ns = now_ns;
	mailbox->has_answer = true;
	pthread_mutex_unlock(&mailbox->mutex);
}

bool boost_mailbox_take(struct boost_mailbox *mailbox, struct boost ret_boosts[BOOSTS_OF_AGENT_MAX],
			uint32_t *ret_count, uint64_t *ret_received_ns)
{
	pthread_mutex_lock(&mailbox->mutex);
	bool is_new = mailbox->has_answer;
	if (is_new) {
		memcpy(ret_boosts, mailbox->boosts, mailbox->count * sizeof(*ret_boosts));
		*ret_count = mailbox->count;
		*ret_received_ns = mailbox->received_ns;
		mailbox->has_answer = false;
	}
	pthread_mutex_unlock(&mailbox->mutex);
	return is_new;
}

void boost_mailbox_set_report(struct boost_mailbox *mailbox, const struct boost_report *report)
{
	pthread_mutex_lock(&mailbox->mutex);
	mailbox->report = *report;
	pthread_mutex_unlock(&mailbox->mutex);
}

void boost_mailbox_read_report(struct boost_mailbox *mailbox, struct boost_report *ret_report)
{
	pthread_mutex_lock(&mailbox->mutex);
	*ret_report = mailbox->report;
	pthread_mutex_unlock(&mailbox->mutex);
}
