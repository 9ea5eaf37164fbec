// SPDX-License-Identifier: Apache-2.0
// Boosts: what a collector asks of agents for a bounded time. A boost raises the rate of CPU sampling, adds
// profiles, or stops all sampling. The agent's own settings bound it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

enum {
	BOOST_HZ_MAX = 1000,        // as --frequency
	BOOST_SECONDS_MAX = 3600,   // what needs longer is a setting of the agent
	BOOSTS_OF_AGENT_MAX = 4,    // that apply to one agent; they are few people's
	BOOST_SERVICES_BYTES = 512, // of boost.services, with its NUL
	BOOST_PROFILES_BYTES = 40,  // of boost_profiles_text()
	BOOST_ID_BYTES = 9,         // of boost_id_text()
};

/** What a boost adds: a set of these. The numbers are on the wire. */
enum boost_profile {
	BOOST_WALL = 1 << 0,
	BOOST_MEMORY = 1 << 1,
	BOOST_WAKERS = 1 << 2,
	BOOST_PROFILES = BOOST_WALL | BOOST_MEMORY | BOOST_WAKERS,
};

struct boost {
	uint32_t id;                         // random, not 0
	uint32_t left_ms;                    // a duration, because clocks differ
	uint32_t hz;                         // on-CPU samples per second and CPU; 0: as they are
	uint32_t profiles;                   // to add
	bool stop;                           // collect nothing
	char services[BOOST_SERVICES_BYTES]; // whose wakers are recorded, separated by commas
};

/** What an agent has made of a boost. */
struct boost_state {
	uint32_t id;
	uint32_t hz;       // of CPU sampling now
	uint32_t hz_max;   // its --boost-hz; 0: it refuses boosts
	uint32_t profiles; // of those asked for, that are collected
	bool stopped;
};

/** The states of an agent's boosts. */
struct boost_report {
	struct boost_state states[BOOSTS_OF_AGENT_MAX];
	uint32_t count;
};

/**
 * Parse a list of words: "wall,memory,wakers". Returns 0; -EINVAL with @err, which says why a profile that agents have
 * cannot be added.
 */
int boost_profiles_parse(const char *text, uint32_t *ret_profiles, struct error *err);
/** "wall,memory". Returns @text. */
const char *boost_profiles_text(uint32_t profiles, char text[BOOST_PROFILES_BYTES]);

/** 8 hexadecimal digits. Returns @text. */
const char *boost_id_text(uint32_t id, char text[BOOST_ID_BYTES]);
/** Returns 0 or -EINVAL. */
int boost_id_parse(const char *text, uint32_t *ret_id);
