// SPDX-License-Identifier: Apache-2.0
// The agent's settings, from file, environment and flags.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/labels.h"
#include "base/log.h"

struct options {
	char *collector;                         // NULL: none
	char *otlp, *otlp_tls_ca, *otlp_headers; // address and files; NULL: none
	uint64_t frequency_hz;
	uint64_t interval_ns;
	uint64_t slot_ns;
	uint64_t pid; // 0: all processes
	struct labels labels;
	bool exact_thread_names;
	char *attribute_patterns;     // resource attributes that become labels, too; NULL: none
	char *kubernetes;             // auto, none, or the API server's URL
	char *kubernetes_credentials; // folder
	char *kubelet;                // its URL; NULL: none
	char *node;                   // the node's name; NULL: unknown
	char *pod_labels, *pod_annotations, *node_labels,
		*excluded_namespaces;        // patterns; NULL: none
	char *relabel;                       // file of relabel rules; NULL: none
	char *docker_folder, *podman_folder; // NULL: none
	uint64_t spool_bytes;
	char *spool_folder; // NULL: none
	uint64_t spool_folder_bytes;
	char *cache_folder; // NULL: none
	bool lines;
	char *debuginfod; // URLs; NULL: none
	uint64_t debug_files_bytes;
	uint32_t sources; // what is collected beside CPU time: enum source_bit
	char *wakers;     // services whose threads' wakers are recorded; NULL: none
	bool has_overhead_budget;
	double overhead_budget_percent; // of one core; 0: by the machine's size
	uint64_t overhead_interval_ns;
	uint64_t boost_hz;           // the most that boosts may ask for; 0: they are refused
	double boost_budget_percent; // of one core, while one is active; 0: by the overhead budget
	uint64_t cupti_interval_ns;
	enum log_level log_level;
	char *tls_ca, *tls_cert, *tls_key, *token_file; // files; NULL: none
	char *admin;                                    // address of probes and metrics; NULL: none
	bool check;                                     // only check the node
	bool insecure;                                  // the token may travel without TLS
};

/**
 * Returns 0, *ret_exit true if --help or --version was printed; or a negative errno and @err
 * naming the setting and what is accepted. @ret_options is to be deinitialized in any case.
 */
int options_parse(int argc, char **argv, struct options *ret_options, bool *ret_exit,
		  struct error *err);
void options_deinit(struct options *options);
