// SPDX-License-Identifier: Apache-2.0
// The tables that OTLP profiles refer to, as writers and readers need them.
#pragma once

/** By field number of ProfilesDictionary (opentelemetry-proto, profiles/v1development/profiles.proto). */
enum otlp_table {
	OTLP_MAPPINGS = 1,
	OTLP_LOCATIONS = 2,
	OTLP_FUNCTIONS = 3,
	OTLP_LINKS = 4,
	OTLP_STRINGS = 5,
	OTLP_ATTRIBUTES = 6,
	OTLP_STACKS = 7,
	OTLP_TABLES,
};
