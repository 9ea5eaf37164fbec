// SPDX-License-Identifier: Apache-2.0
#include "collector/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http/http_listen.h"
#include "base/log.h"
#include "collector/store/clickhouse/clickhouse.h"
#include "proto/rpc.h"

#define HOUR_NS           (3600 * NS_PER_SECOND)
#define SPIKE_SCAN_NS_MIN (10 * NS_PER_SECOND)

static int check_addresses(const struct collector_options *options, struct error *err)
{
	struct error cause;
	int rc = http_listen_check(options->http, "http", err);

	if (!rc && options->admin && strcmp(options->admin, "none") != 0)
		rc = http_listen_check(options->admin, "admin", err);
	if (!rc && rpc_address_check(options->grpc, 0, &cause))
		rc = error_set(err, -EINVAL, "--grpc: %s", cause.text);
	return rc;
}

/** What others can reach must be encrypted and ask who they are. */
static int check_address(const struct collector_options *options, const char *setting,
			 const char *address, struct error *err)
{
	const char *missing = !options->tls_cert && !options->access ? "neither TLS nor a login"
			      : !options->tls_cert                   ? "no TLS"
								     : "no login";

	if (options->insecure || address_is_local(address) ||
	    (options->tls_cert && options->access))
		return 0;
	return error_set(
		err, -EPERM,
		"--%s %.60s: other machines can reach it, and there is %s; add --tls-cert, "
		"--tls-key and --access (docs/security.md), or --insecure where the "
		"network is trusted",
		setting, address, missing);
}

static int check_security(const struct collector_options *options, struct error *err)
{
	if (!options->tls_cert != !options->tls_key)
		return error_set(err, -EINVAL, "--tls-cert and --tls-key belong together");
	if (options->tls_client_ca && !options->tls_cert)
		return error_set(err, -EINVAL, "--tls-client-ca: needs --tls-cert and --tls-key");
	if (options->tls_crl && !options->tls_client_ca)
		return error_set(err, -EINVAL,
				 "--tls-crl: needs --tls-client-ca, the CAs whose certificates are "
				 "revoked");
	if ((options->proxy_header || options->tls_client_ca) && !options->access)
		return error_set(err, -EINVAL,
				 "--%s: needs --access, the file of credentials and roles",
				 options->proxy_header ? "proxy-header" : "tls-client-ca");
	int rc = check_address(options, "grpc", options->grpc, err);
	if (!rc)
		rc = check_address(options, "http", options->http, err);
	return rc || !options->admin || strcmp(options->admin, "none") == 0
		       ? rc
		       : check_address(options, "admin", options->admin, err);
}

static int check_url(const char *setting, const char *url, struct error *err)
{
	// Without the URL: it may have a password in it.
	return !url || strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0
		       ? 0
		       : error_set(err, -EINVAL, "--%s: expected http:// or https://", setting);
}

static int check_spikes(const struct collector_options *options, struct error *err)
{
	if (options->spike_scan_ns && options->spike_scan_ns < SPIKE_SCAN_NS_MIN)
		return error_set(err, -EINVAL, "--spike-scan: at least 10s, or 0s for never");
	if (options->spike_webhook && !options->spike_scan_ns)
		return error_set(err, -EINVAL, "--spike-webhook: needs --spike-scan");
	int rc = check_url("spike-webhook", options->spike_webhook, err);

	return rc ? rc : check_url("page-url", options->page_url, err);
}

/** Of the options of ClickHouse: one that is set, or NULL. */
static const char *set_of_clickhouse(const struct collector_options *options)
{
	return options->clickhouse                 ? "clickhouse"
	       : options->clickhouse_user          ? "clickhouse-user"
	       : options->clickhouse_password_file ? "clickhouse-password-file"
	       : options->clickhouse_cluster       ? "clickhouse-cluster"
						   : NULL;
}

static int check_store(const struct collector_options *options, struct error *err)
{
	const struct clickhouse_options clickhouse = { .urls = options->clickhouse,
						       .database = options->clickhouse_database,
						       .cluster = options->clickhouse_cluster };

	if (strcmp(options->store, "clickhouse") == 0) {
		if (options->backup || options->restore)
			return error_set(err, -EINVAL,
					 "%s: the profiles are in ClickHouse; copy its database by "
					 "its own means (docs/clickhouse.md)",
					 options->backup ? "backup" : "restore");
		return clickhouse_options_check(&clickhouse, err);
	}
	if (strcmp(options->store, "rocksdb") != 0)
		return error_set(err, -EINVAL, "store: \"%s\" is not one of rocksdb and clickhouse",
				 options->store);
	if (set_of_clickhouse(options))
		return error_set(err, -EINVAL, "--%s: needs --store clickhouse",
				 set_of_clickhouse(options));
	return 0;
}

static int check(const struct collector_options *options, int argc, char **argv, int first_word,
		 struct error *err)
{
	enum log_level level;

	if (first_word < argc)
		return error_set(err, -EINVAL,
				 "unexpected argument \"%s\"; see cairn-collector --help",
				 argv[first_word]);
	if (log_level_parse(options->log_level, &level))
		return error_set(err, -EINVAL,
				 "--log-level: \"%s\" is not one of error, warn, info and debug",
				 options->log_level);
	if (!*options->data)
		return error_set(err, -EINVAL, "--data: expected a folder");
	if (options->new_token && !options->roles)
		return error_set(err, -EINVAL, "--new-token: needs --roles");
	if (!!options->check + !!options->backup + !!options->restore > 1)
		return error_set(err, -EINVAL,
				 "--check, --backup and --restore: only one at a time");
	int rc = check_store(options, err);
	if (!rc)
		rc = check_spikes(options, err);
	if (!rc)
		rc = check_addresses(options, err);
	if (!rc)
		rc = check_security(options, err);
	if (rc)
		return rc;

	log_set_level(level);
	return 0;
}

/** Its default lies in the directory of --data. */
static int set_admin(struct collector_options *options, struct error *err)
{
	if (options->admin && strcmp(options->admin, "none") == 0) {
		free(take(options->admin));
		return 0;
	}
	if (!options->admin && asprintf(&options->admin, "unix:%s/admin.sock", options->data) < 0) {
		options->admin = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

int collector_options_parse(struct collector_options *options, int argc, char **argv,
			    enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ .name = "data",
		  .letter = 'd',
		  .kind = CONFIG_STRING,
		  .value = &options->data,
		  .default_text = "/var/lib/cairn",
		  .argument = "DIR",
		  .help = "Store profiles in this folder, created if missing" },
		{ .name = "store",
		  .kind = CONFIG_STRING,
		  .value = &options->store,
		  .default_text = "rocksdb",
		  .argument = "NAME",
		  .help = "Where profiles are stored: rocksdb, in --data; clickhouse, on the "
			  "servers "
			  "of --clickhouse, for fleets beyond one machine (docs/clickhouse.md)" },
		{ .name = "clickhouse",
		  .kind = CONFIG_STRING,
		  .value = &options->clickhouse,
		  .argument = "URLS",
		  .help = "HTTP interfaces of ClickHouse servers, with commas between: without "
			  "--clickhouse-cluster each is a shard of its own" },
		{ .name = "clickhouse-database",
		  .kind = CONFIG_STRING,
		  .value = &options->clickhouse_database,
		  .default_text = "cairn",
		  .argument = "NAME",
		  .help = "Database of the profiles, created if missing" },
		{ .name = "clickhouse-user",
		  .kind = CONFIG_STRING,
		  .value = &options->clickhouse_user,
		  .argument = "NAME",
		  .help = "User at ClickHouse; may create the database and its tables" },
		{ .name = "clickhouse-password-file",
		  .kind = CONFIG_STRING,
		  .value = &options->clickhouse_password_file,
		  .argument = "FILE",
		  .help = "That user's password, in the first line of this file" },
		{ .name = "clickhouse-cluster",
		  .kind = CONFIG_STRING,
		  .value = &options->clickhouse_cluster,
		  .argument = "NAME",
		  .help = "The servers are of this cluster (remote_servers in their "
			  "configuration): its shards share the agents, its replicas have the same "
			  "profiles" },
		{ .name = "grpc",
		  .kind = CONFIG_STRING,
		  .value = &options->grpc,
		  .default_text = "127.0.0.1:7171",
		  .argument = "ADDR",
		  .help = "Receive agents' batches at this host:port or unix:PATH" },
		{ .name = "http",
		  .kind = CONFIG_STRING,
		  .value = &options->http,
		  .default_text = "127.0.0.1:7070",
		  .argument = "ADDR",
		  .help = "Serve the web page and the HTTP API at this host:port" },
		{ .name = "http-host",
		  .kind = CONFIG_STRING,
		  .value = &options->http_host,
		  .default_text = NULL,
		  .argument = "NAMES",
		  .help = "Names by which browsers open the page, with commas between. Addresses, "
			  "localhost and the host of --http need not be named; other names are "
			  "refused, because any site may resolve its own name to this address" },
		{ .name = "admin",
		  .kind = CONFIG_STRING,
		  .value = &options->admin,
		  .default_text = NULL,
		  .argument = "ADDR",
		  .help = "Answer /metrics, /healthz and /readyz at this host:port or unix:PATH, "
			  "however many queries run, and accept what changes the store, as --http: "
			  "debug files, boosts, deletions. Default: unix:DIR/admin.sock of --data; "
			  "none: no such listener" },
		{ .name = "access",
		  .kind = CONFIG_STRING,
		  .value = &options->access,
		  .argument = "FILE",
		  .help = "Require a login: who may do what, one credential per line "
			  "(docs/security.md); read again when it changes" },
		{ .name = "limits",
		  .kind = CONFIG_STRING,
		  .value = &options->limits,
		  .argument = "FILE",
		  .help = "Limits of each tenant: rate of ingest, series, labels, depth of stacks, "
			  "range and memory of queries (YAML; docs/tenants.md); read again when it "
			  "changes" },
		{ .name = "tls-cert",
		  .kind = CONFIG_STRING,
		  .value = &options->tls_cert,
		  .argument = "FILE",
		  .help = "Serve both addresses by TLS with this certificate and its "
			  "intermediates (PEM); read again when it changes, as are the next "
			  "three" },
		{ .name = "tls-key",
		  .kind = CONFIG_STRING,
		  .value = &options->tls_key,
		  .argument = "FILE",
		  .help = "Private key of --tls-cert (PEM)" },
		{ .name = "tls-client-ca",
		  .kind = CONFIG_STRING,
		  .value = &options->tls_client_ca,
		  .argument = "FILE",
		  .help = "Accept client certificates of these CAs (PEM) as a login; --access "
			  "names them" },
		{ .name = "tls-crl",
		  .kind = CONFIG_STRING,
		  .value = &options->tls_crl,
		  .argument = "FILE",
		  .help = "Refuse the client certificates that these CRLs revoke (PEM)" },
		{ .name = "proxy-header",
		  .kind = CONFIG_STRING,
		  .value = &options->proxy_header,
		  .argument = "NAME",
		  .help = "Believe this header of --proxy-from: the person that a proxy has "
			  "authenticated, such as X-Forwarded-Email" },
		{ .name = "proxy-from",
		  .kind = CONFIG_STRING,
		  .value = &options->proxy_from,
		  .argument = "ADDRS",
		  .help = "Addresses or networks of that proxy, separated by commas" },
		{ .name = "audit",
		  .kind = CONFIG_STRING,
		  .value = &options->audit,
		  .argument = "FILE",
		  .help = "Log queries, uploads and administration to this file, as JSON lines; "
			  "stderr, or none. With --access the default is audit.log in --data" },
		{ .name = "insecure",
		  .kind = CONFIG_BOOL,
		  .value = &options->insecure,
		  .help = "Listen without TLS and login on addresses that other machines reach" },
		{ .name = "new-token",
		  .kind = CONFIG_STRING,
		  .value = &options->new_token,
		  .argument = "NAME",
		  .help = "Print a new token, append its line to --access (without it, print it on "
			  "standard error), and exit; needs --roles" },
		{ .name = "roles",
		  .kind = CONFIG_STRING,
		  .value = &options->roles,
		  .argument = "LIST",
		  .help = "Roles of --new-token: ingest, read, upload, admin" },
		{ .name = "tenant",
		  .kind = CONFIG_STRING,
		  .value = &options->tenant,
		  .default_text = "-",
		  .argument = "NAME",
		  .help = "Tenant of --new-token; -: none; *: all, for read and admin" },
		{ .name = "retention",
		  .kind = CONFIG_DURATION,
		  .value = &options->retention_ns,
		  .default_text = "7d",
		  .min = HOUR_NS,
		  .max = 3660 * 24 * HOUR_NS,
		  .argument = "TIME",
		  .help = "Delete profiles that are older" },
		{ .name = "seconds-after",
		  .kind = CONFIG_DURATION,
		  .value = &options->seconds_after_ns,
		  .default_text = "7d",
		  .max = 3660 * 24 * HOUR_NS,
		  .argument = "TIME",
		  .help = "Downsample older profiles to slots of a second; 0s: never. "
			  "Nothing is downsampled with --store clickhouse" },
		{ .name = "minutes-after",
		  .kind = CONFIG_DURATION,
		  .value = &options->minutes_after_ns,
		  .default_text = "30d",
		  .max = 3660 * 24 * HOUR_NS,
		  .argument = "TIME",
		  .help = "Downsample older profiles to slots of a minute; 0s: never. "
			  "Nothing is downsampled with --store clickhouse" },
		{ .name = "upgrade-store",
		  .kind = CONFIG_BOOL,
		  .value = &options->upgrade_store,
		  .help = "Write the store in the newest format from now on: profiles of past "
			  "hours take less room, and can be downsampled. Earlier versions cannot "
			  "go on with it" },
		{ .name = "retention-size",
		  .kind = CONFIG_SIZE,
		  .value = &options->retention_bytes,
		  .default_text = "0",
		  .argument = "SIZE",
		  .help = "Delete the oldest profiles when the store is larger; 0: only when the "
			  "disk runs full" },
		{ .name = "disk-free",
		  .kind = CONFIG_SIZE,
		  .value = &options->disk_free_bytes,
		  .default_text = "1GiB",
		  .argument = "SIZE",
		  .help = "Keep so much of the disk free, at most a tenth of it: below, the oldest "
			  "profiles are deleted; below half of it, batches are refused" },
		{ .name = "accept-clock",
		  .kind = CONFIG_BOOL,
		  .value = &options->accept_clock,
		  .help = "The clock is right although it lies before or long after the last "
			  "trusted time: delete by it. For one start" },
		{ .name = "memory",
		  .kind = CONFIG_SIZE,
		  .value = &options->memory_bytes,
		  .default_text = NULL,
		  .min = 64ULL << 20,
		  .max = 1ULL << 42,
		  .argument = "SIZE",
		  .help = "Memory for the store (half of it), agents' messages, and queries. "
			  "Without it: three quarters of the cgroup's limit, or a quarter of the "
			  "machine's "
			  "memory, at most 2GiB" },
		{ .name = "debug-files",
		  .kind = CONFIG_SIZE,
		  .value = &options->debug_files_bytes,
		  .default_text = "4GiB",
		  .min = 1ULL << 20,
		  .max = 1ULL << 42,
		  .argument = "SIZE",
		  .help = "Disk limit of uploaded debug files, and again of fetched ones" },
		{ .name = "sources",
		  .kind = CONFIG_SIZE,
		  .value = &options->sources_bytes,
		  .default_text = "1GiB",
		  .min = 1ULL << 20,
		  .max = 1ULL << 42,
		  .argument = "SIZE",
		  .help = "Disk limit of uploaded source files" },
		{ .name = "source-folders",
		  .kind = CONFIG_STRING,
		  .value = &options->source_folders,
		  .argument = "FOLDERS",
		  .help = "Show the lines of functions with source code below these folders of "
			  "this machine, as /srv/checkout, or TENANT=/srv/checkout where there are "
			  "tenants; several with commas between" },
		{ .name = "debuginfod",
		  .kind = CONFIG_STRING,
		  .value = &options->debuginfod,
		  .default_text = NULL,
		  .argument = "URLS",
		  .help = "Fetch debug files from these debuginfod servers for frames without "
			  "names" },
		{ .name = "spike-scan",
		  .kind = CONFIG_DURATION,
		  .value = &options->spike_scan_ns,
		  .default_text = "1m",
		  .max = HOUR_NS,
		  .argument = "TIME",
		  .help = "Scan so often for spikes of all services, count them in /metrics and "
			  "post "
			  "them to --spike-webhook; 0s: never" },
		{ .name = "spike-webhook",
		  .kind = CONFIG_STRING,
		  .value = &options->spike_webhook,
		  .argument = "URL",
		  .help = "Post spikes to this URL as Alertmanager takes alerts: "
			  "http://alertmanager:9093/api/v2/alerts" },
		{ .name = "page-url",
		  .kind = CONFIG_STRING,
		  .value = &options->page_url,
		  .argument = "URL",
		  .help = "Where people open the web page: links in alerts begin so" },
		{ .name = "profile-metrics",
		  .kind = CONFIG_STRING,
		  .value = &options->profile_metrics,
		  .argument = "FILE",
		  .help = "Serve at /metrics/profiles the metrics that this file defines: each "
			  "function's share per service (YAML; docs/http-api.md)" },
		{ .name = "grpc-threads",
		  .kind = CONFIG_UINT,
		  .value = &options->grpc_threads,
		  .default_text = "4",
		  .min = 1,
		  .max = 64,
		  .argument = "N",
		  .help = "Batches that are processed at the same time; with --store clickhouse "
			  "eight times as many, at most 64, wait for it" },
		{ .name = "http-threads",
		  .kind = CONFIG_UINT,
		  .value = &options->http_threads,
		  .default_text = "4",
		  .min = 1,
		  .max = 64,
		  .argument = "N",
		  .help = "Queries that run at the same time" },
		{ .name = "log-level",
		  .kind = CONFIG_STRING,
		  .value = &options->log_level,
		  .default_text = "info",
		  .argument = "LEVEL",
		  .help = "error, warn, info or debug" },
		{ .name = "check",
		  .kind = CONFIG_STRING,
		  .value = &options->check,
		  .argument = "DIR",
		  .help = "Read the whole store in this folder, report what is damaged, and "
			  "exit with 0 (good), 1 (damaged) or 2 (not checked)" },
		{ .name = "backup",
		  .kind = CONFIG_STRING,
		  .value = &options->backup,
		  .argument = "FOLDER",
		  .help = "Add a backup of the store in --data to this folder, also while a "
			  "collector "
			  "runs, and exit" },
		{ .name = "restore",
		  .kind = CONFIG_STRING,
		  .value = &options->restore,
		  .argument = "FOLDER",
		  .help = "Copy the latest backup in this folder to --data, which must be empty, "
			  "and exit" },
	};
	const struct config_program program = {
		.name = "cairn-collector",
		.summary =
			"Receives profiles from agents, stores them, and serves them on a web page "
			"and an HTTP API.",
		.notes =
			"Example:\n"
			"  cairn-collector --data /var/lib/cairn\n"
			"  cairn-collector --store clickhouse --clickhouse http://clickhouse:8123\n"
			"  cairn-collector --data /var/lib/cairn --backup /mnt/backup/cairn\n"
			"  cairn-collector --new-token fleet --roles ingest --access access > "
			"token\n"
			"  cairn-collector --grpc 0.0.0.0:7171 --http 0.0.0.0:7070 --access "
			"access \\\n"
			"    --tls-cert collector.crt --tls-key collector.key\n",
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word;

	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);
	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	rc = check(options, argc, argv, first_word, err);
	return rc ? rc : set_admin(options, err);
}

void collector_options_deinit(struct collector_options *options)
{
	free(options->data);
	free(options->store);
	free(options->clickhouse);
	free(options->clickhouse_database);
	free(options->clickhouse_user);
	free(options->clickhouse_password_file);
	free(options->clickhouse_cluster);
	free(options->grpc);
	free(options->http);
	free(options->http_host);
	free(options->admin);
	free(options->debuginfod);
	free(options->source_folders);
	free(options->tls_cert);
	free(options->tls_key);
	free(options->tls_client_ca);
	free(options->tls_crl);
	free(options->access);
	free(options->limits);
	free(options->audit);
	free(options->proxy_header);
	free(options->proxy_from);
	free(options->new_token);
	free(options->roles);
	free(options->tenant);
	free(options->spike_webhook);
	free(options->profile_metrics);
	free(options->page_url);
	free(options->log_level);
	free(options->check);
	free(options->backup);
	free(options->restore);
	*options = (struct collector_options){ 0 };
}
