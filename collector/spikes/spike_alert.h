// SPDX-License-Identifier: Apache-2.0
// Spikes as Alertmanager's API takes alerts: POST /api/v2/alerts (prometheus/alertmanager, api/v2/openapi.yaml, postableAlerts).
#pragma once

#include <stdint.h>

#include "collector/spikes/spike.h"

enum {
	// Alertmanager shows an alert that has ended to nobody: a spike of a second is reported for so long.
	SPIKE_ALERT_S = 5 * 60,
};

/**
 * @count spikes as a JSON array, for the time @now_ns; @page_url (NULL: none) is where the page is. Free it with free(). NULL: out of
 * memory.
 */
char *spike_alerts_encode(const struct spike *const *spikes, uint32_t count, const char *page_url,
			  uint64_t now_ns);
