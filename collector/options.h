// SPDX-License-Identifier: Apache-2.0
// The collector's settings.
#pragma once

#include <stdint.h>

#include "base/config/config.h"

struct collector_options {
	char *data;  // directory
	char *store; // "rocksdb", "clickhouse"
	char *clickhouse, *clickhouse_database, *clickhouse_user, *clickhouse_password_file;
	char *clickhouse_cluster;
	char *grpc; // address
	char *http;
	char *http_host; // names with commas between; NULL: none
	char *admin;     // address; NULL: none
	uint64_t retention_ns;
	uint64_t seconds_after_ns, minutes_after_ns; // ages to downsample at; 0: never
	bool upgrade_store;
	uint64_t retention_bytes; // 0: no limit
	uint64_t disk_free_bytes;
	bool accept_clock;
	uint64_t memory_bytes; // 0: derive it from the machine's
	uint64_t debug_files_bytes;
	uint64_t sources_bytes;
	char *source_folders;   // "[TENANT=]PATH", with commas between; NULL: none
	char *debuginfod;       // URLs; NULL: none
	uint64_t spike_scan_ns; // 0: never
	char *spike_webhook;    // URL; NULL: none
	char *page_url;         // NULL: unknown
	char *profile_metrics;  // file; NULL: none
	uint64_t grpc_threads;
	uint64_t http_threads;
	char *tls_cert, *tls_key, *tls_client_ca, *tls_crl; // files; NULL: none
	char *access;                                       // file; NULL: no login
	char *limits; // file; NULL: tenants have the default limits
	char *audit;  // file, "stderr" or "none"; NULL: a file in data, with a login
	char *proxy_header, *proxy_from;
	bool insecure;
	char *new_token, *roles, *tenant; // of a token to be made
	char *log_level;
	// Instead of running; NULL: not asked for.
	char *check;   // a store's directory
	char *backup;  // a folder of backups
	char *restore; // the same
};

/** config_parse(), and checks of the values. */
int collector_options_parse(struct collector_options *options, int argc, char **argv,
			    enum config_outcome *ret_outcome, struct error *err);
void collector_options_deinit(struct collector_options *options);
