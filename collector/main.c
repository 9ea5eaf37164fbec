// SPDX-License-Identifier: Apache-2.0
// cairn-collector: opens the store and the two servers in front of it, and runs the store's
// maintenance until a signal stops it.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/confined/confined_launcher.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/standard_streams.h"
#include "base/version.h"
#include "collector/access/access.h"
#include "collector/backup.h"
#include "collector/boost/boost_table.h"
#include "collector/check_command.h"
#include "collector/doors/otlp_door.h"
#include "collector/http/http_admin.h"
#include "collector/http/http_api.h"
#include "collector/http/http_server.h"
#include "collector/ingest/ingest_identity.h"
#include "collector/ingest/readiness.h"
#include "collector/ingest/rpc_events.h"
#include "collector/limits/tenant_limits.h"
#include "collector/options.h"
#include "collector/profile_metrics/profile_metrics.h"
#include "collector/resource_plan.h"
#include "collector/spikes/spike_watch.h"
#include "collector/store/clickhouse/clickhouse.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "collector/symbols/elf_process.h"
#include "collector/symbols/file_process.h"
#include "collector/token_command.h"
#include "proto/export_message.h"
#include "proto/rpc.h"

enum {
	EXIT_USAGE = 2,
	PORT_TEXT_BYTES = 32,
	// Memory of decoding and storing a batch, per byte of it: 25 were measured, of many series with
	// small values (tests/e2e/test_overload.py).
	EXPORT_WORK_PER_BYTE = 26,
	GRPC_GRACE_MS = 5000,
	HTTP_GRACE_MS = 2000,
	CLICKHOUSE_INSERT_INTERVAL_MS = 100, // ten parts a second are merged with ease
	GRPC_THREADS_MAX = 64,               // of the server, and of --grpc-threads
	CLICKHOUSE_THREADS_PER_THREAD = 8,   // wait for inserts, per thread of --grpc-threads
	REPEATED_LOG_S = 60,                 // between log lines about the same failure
	CERTIFICATE_LEFT_S = 7 * 24 * 3600,  // warn daily that it expires
	CERTIFICATE_LOG_S = 24 * 3600,
};

static const struct confined_task *const confined_tasks[] = { &symbol_task, &dwarf_task,
							      &elf_task };

struct collector {
	struct collector_options options;
	struct memory_plan memory;
	struct descriptor_plan descriptors;
	struct byte_budget messages, answers;
	struct rpc_events rpc_events;
	struct store *store;
	struct metrics metrics;
	struct tls_server *tls; // NULL: none
	struct access *access;
	struct tenant_limits *limits;
	struct ingest_gate gate;
	struct audit *audit; // NULL: none
	uint64_t certificate_logged_s;
	// Failures to read what has changed.
	uint64_t tls_logged_ns, access_logged_ns, limits_logged_ns;
	struct receiver *receiver;
	struct backup_service backups;
	struct debuginfod *debuginfod;
	struct confined_launcher *launcher; // NULL: nothing runs confined
	struct symbol_spaces *symbols;
	struct rpc_server *grpc;
	struct readiness *readiness;
	struct spike_watch *spikes;              // NULL: none
	struct profile_metrics *profile_metrics; // NULL: none
	struct http_api api;
	struct http_guard guard;
	struct http_server *http, *admin;
	int http_port;
	bool clock_doubted;         // and logged
	uint64_t symbols_logged_ns; // 0: never
	uint32_t launcher_restarts; // that were counted and logged
};

/** Close in reverse order: refuse new work, finish running work, close the store. */
static void collector_close(struct collector *collector)
{
	atomic_store(&collector->api.ready, false);
	readiness_stop(collector->readiness);
	spike_watch_close(collector->spikes);
	if (collector->grpc)
		rpc_server_close(collector->grpc, GRPC_GRACE_MS);
	http_server_close(collector->http, HTTP_GRACE_MS);
	http_server_close(collector->admin, HTTP_GRACE_MS);
	profile_metrics_close(collector->profile_metrics);
	http_guard_deinit(&collector->guard);
	readiness_free(collector->readiness);
	receiver_free(collector->receiver);
	symbol_spaces_close(collector->symbols);
	debuginfod_close(collector->debuginfod);
	confined_launcher_free(collector->launcher);
	backup_service_close(&collector->backups);
	if (collector->store)
		store_close(collector->store);
	audit_close(collector->audit);
	tenant_limits_close(collector->limits);
	access_close(collector->access);
	tls_server_close(collector->tls);
	collector_options_deinit(&collector->options);
}

/** Of an address that leaves the port to the kernel: which it is. */
static const char *port_text(const char *address, int port, char text[PORT_TEXT_BYTES])
{
	const char *colon = strrchr(address, ':');

	if (!port || !colon || strtol(colon + 1, NULL, 10))
		return "";
	snprintf(text, PORT_TEXT_BYTES, " (port %d)", port);
	return text;
}

static bool is_on_clickhouse(const struct collector *collector)
{
	return strcmp(collector->options.store, "clickhouse") == 0;
}

/** A thread that waits for ClickHouse computes nothing, and those that wait share an insert. */
static uint32_t grpc_threads(const struct collector *collector)
{
	uint64_t threads = collector->options.grpc_threads;

	if (is_on_clickhouse(collector))
		threads *= CLICKHOUSE_THREADS_PER_THREAD;
	return threads < GRPC_THREADS_MAX ? (uint32_t)threads : GRPC_THREADS_MAX;
}

static int open_grpc(struct collector *collector, struct error *err)
{
	const struct rpc_method methods[] = {
		{ .name = RECEIVER_METHOD,
		  .handle = receiver_export,
		  .context = collector->receiver,
		  .work_per_byte = EXPORT_WORK_PER_BYTE,
		  .admit = ingest_admit,
		  .admit_context = &collector->gate },
		{ .name = OTLP_METHOD,
		  .handle = otlp_export,
		  .context = &collector->api.doors,
		  .work_per_byte = 1, // the door takes what it needs
		  .admit = ingest_admit,
		  .admit_context = &collector->gate },
		{ .name = HEALTH_METHOD, .handle = readiness_health, .work_per_byte = 1 },
	};
	struct rpc_server_limits limits = rpc_server_limits_default;
	char text[PORT_TEXT_BYTES];
	const struct rpc_server_options options = {
		.address = collector->options.grpc,
		.message_bytes_max = EXPORT_MESSAGE_BYTES_MAX,
		.threads = grpc_threads(collector),
		.methods = methods,
		.method_count = ARRAY_SIZE(methods),
		.limits = &limits,
		.tls = collector->tls,
		.budget = &collector->messages,
		.report = rpc_events_report,
		.report_context = &collector->rpc_events,
	};
	int port;

	limits.connections_max = collector->descriptors.agents;
	// An address never has all of them, unless they are few.
	limits.connections_per_peer_max = limits.connections_max - limits.connections_max / 4;
	int rc = rpc_server_open(&options, &collector->grpc, &port, err);
	if (!rc && port)
		log_info("collector: receiving batches on %s%s", collector->options.grpc,
			 port_text(collector->options.grpc, port, text));
	if (rc)
		return rc;
	collector->readiness = readiness_open(collector->grpc, &collector->metrics);
	collector->api.readiness = collector->readiness;
	return collector->readiness ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int open_http(struct collector *collector, struct error *err)
{
	const struct http_server_options options = {
		.setting = "http",
		.address = collector->options.http,
		.threads = (uint32_t)collector->options.http_threads,
		.connections_max = collector->descriptors.http,
		.answers = &collector->answers,
		.guard = &collector->guard,
		.context = &collector->api,
		.tls = collector->tls,
		.proxy_header = collector->options.proxy_header,
		.admit = http_api_admit,
		.is_slow = http_api_is_slow,
		.handle = http_api_handle,
		.body_max = http_api_body_max,
		.bodies = &collector->messages,
		.begin_upload = http_api_begin_upload,
		.end_upload = http_api_end_upload,
		.done = http_api_done,
		.limited = http_api_limited,
	};

	int rc = http_guard_init(&collector->guard, collector->options.http,
				 collector->options.http_host, err);
	return rc ? rc : http_server_open(&options, &collector->http, &collector->http_port, err);
}

/** Its threads answer nothing that takes time: probes and metrics never wait for queries. */
static int open_admin(struct collector *collector, struct error *err)
{
	const char *address = collector->options.admin;
	bool is_unix = address && strncmp(address, "unix:", 5) == 0;
	char text[PORT_TEXT_BYTES];
	int port;

	if (!address)
		return 0;
	const struct http_server_options options = {
		.setting = "admin",
		.connections_max = ADMIN_CONNECTIONS_MAX,
		.address = address,
		.threads = 1,
		.guard = &collector->guard,
		.context = &collector->api,
		.tls = is_unix ? NULL : collector->tls,
		.admit = is_unix ? http_admin_admit : http_api_admit,
		.is_slow = http_admin_is_slow,
		.handle = http_admin_handle,
		.begin_upload = http_api_begin_upload,
		.end_upload = http_api_end_upload,
		.done = http_api_done,
		.limited = http_api_limited,
	};
	int rc = http_server_open(&options, &collector->admin, &port, err);
	if (!rc)
		log_info("collector: probes and metrics at %s%s", address,
			 port_text(address, port, text));
	return rc;
}

/** Before the first thread. Without it all works but debug files. */
static void start_launcher(struct collector *collector)
{
	struct error err = { 0 };

	if (confined_launcher_start(&collector->launcher, &err))
		log_warn("debug files: not read: the sandbox does not start: %s; stripped code "
			 "stays without names, uploads are refused; allow seccomp(2) and executing "
			 "/proc/self/exe",
			 err.text);
	else if (!confined_launcher_has_landlock(collector->launcher))
		log_info("debug files: read without Landlock: kernel has none; seccomp confines "
			 "the readers");
}

static int check_debug_file(void *launcher, int fd, const char *build_id)
{
	return debug_file_check(launcher, fd, build_id, NULL);
}

static int open_debuginfod(struct collector *collector, struct error *err)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/fetched-debug-files", collector->options.data);
	const struct debuginfod_options options = {
		.urls = collector->options.debuginfod,
		.folder = folder,
		.cache_bytes = collector->options.debug_files_bytes,
		.check = check_debug_file,
		.check_context = collector->launcher,
	};
	return debuginfod_open(&options, &collector->debuginfod, err);
}

static int open_symbolizer(struct collector *collector, struct error *err)
{
	int rc = collector->options.debuginfod ? open_debuginfod(collector, err) : 0;

	if (rc)
		return rc;
	const struct symbol_spaces_options options = {
		.data = collector->options.data,
		.bytes_max = collector->options.debug_files_bytes,
		.sources_bytes_max = collector->options.sources_bytes,
		.source_folders = collector->options.source_folders,
		.debuginfod = collector->debuginfod,
		.launcher = collector->launcher,
	};
	return symbol_spaces_open(&options, &collector->symbols, err);
}

static int open_spikes(struct collector *collector, struct error *err)
{
	const struct symbol_space *symbols = symbol_spaces_get(collector->symbols, "", NULL);
	const struct spike_watch_options options = {
		.store = collector->store,
		.metrics = &collector->metrics,
		.symbolizer = symbols ? symbols->symbolizer : NULL,
		.budget = &collector->answers,
		.interval_ns = collector->options.spike_scan_ns,
		.webhook = collector->options.spike_webhook,
		.page_url = collector->options.page_url,
	};

	return options.interval_ns ? spike_watch_open(&options, &collector->spikes, err) : 0;
}

static int open_profile_metrics(struct collector *collector, struct error *err)
{
	const struct symbol_space *symbols = symbol_spaces_get(collector->symbols, "", NULL);
	const struct profile_metrics_options options = {
		.path = collector->options.profile_metrics,
		.store = collector->store,
		.metrics = &collector->metrics,
		.symbolizer = symbols ? symbols->symbolizer : NULL,
		.budget = &collector->answers,
	};

	return options.path ? profile_metrics_open(&options, &collector->profile_metrics, err) : 0;
}

// Divide the machine's memory and descriptors, and report it.
static int plan_resources(struct collector *collector, struct error *err)
{
	uint64_t limit = descriptors_raise();

	collector->memory = memory_plan_make(collector->options.memory_bytes, memory_limit_cgroup(),
					     memory_limit_machine());
	int rc = descriptor_plan_make(limit, collector->memory.connections_max,
				      &collector->descriptors, err);
	if (rc)
		return rc;
	collector->messages.bytes_max = collector->memory.messages_bytes;
	collector->answers.bytes_max = collector->memory.answers_bytes;
	collector->rpc_events.metrics = &collector->metrics;
	log_info("collector: memory limit %llu MiB: store %llu MiB, agents' messages %llu MiB, "
		 "queries and their answers %llu MiB",
		 (unsigned long long)collector->memory.total_bytes >> 20,
		 (unsigned long long)collector->memory.store_bytes >> 20,
		 (unsigned long long)collector->memory.messages_bytes >> 20,
		 (unsigned long long)collector->memory.answers_bytes >> 20);
	log_info("collector: open files: limit %llu: at most %u connections of agents and %u of "
		 "HTTP "
		 "clients",
		 (unsigned long long)limit, collector->descriptors.agents,
		 collector->descriptors.http);
	return 0;
}

static int open_audit(struct collector *collector, struct error *err)
{
	const char *path = collector->options.audit;
	char file[PATH_MAX];

	if (!path) {
		if (!collector->options.access)
			return 0;
		snprintf(file, sizeof(file), "%s/audit.log", collector->options.data);
		path = file;
	}
	if (strcmp(path, "none") == 0)
		return 0;
	return audit_open(path, &collector->metrics, &collector->audit, err);
}

static int open_access(struct collector *collector, struct error *err)
{
	const struct collector_options *o = &collector->options;
	const struct tls_server_options tls_options = { o->tls_cert, o->tls_key, o->tls_client_ca,
							o->tls_crl };
	int rc = o->tls_cert ? tls_server_open(&tls_options, &collector->tls, err) : 0;

	if (rc)
		return rc;
	const struct access_options access_options = { o->access, collector->tls, o->proxy_header,
						       o->proxy_from };
	rc = access_open(&access_options, &collector->access, err);
	if (!rc)
		rc = tenant_limits_open(o->limits, &collector->limits, err);
	if (rc)
		return rc;
	collector->api.access = collector->access;
	collector->api.limits = collector->limits;
	collector->gate = (struct ingest_gate){ collector->access, collector->limits };
	collector->api.is_tls = collector->tls;
	if (o->insecure && (!collector->tls || !o->access))
		log_warn("collector: --insecure: %s; everybody with access to %s or %s can %s",
			 collector->tls ? "no login" : "no TLS", o->grpc, o->http,
			 o->access ? "read all traffic" : "read and write all profiles");
	return 0;
}

static int open_store(struct collector *collector, const struct store_options *options,
		      struct error *err)
{
	const struct collector_options *o = &collector->options;
	const struct clickhouse_options clickhouse = {
		.urls = o->clickhouse,
		.database = o->clickhouse_database,
		.user = o->clickhouse_user,
		.password_file = o->clickhouse_password_file,
		.cluster = o->clickhouse_cluster,
		.insert_interval_ms = CLICKHOUSE_INSERT_INTERVAL_MS,
	};

	if (is_on_clickhouse(collector)) {
		// For debug files, the log of queries and the socket of --admin.
		if (mkdir(o->data, 0750) && errno != EEXIST)
			return error_errno(err, -errno, "data: cannot create %s", o->data);
		return clickhouse_store_open(options, &clickhouse, &collector->store, err);
	}
	return rocksdb_store_open(options, &collector->store, err);
}

static int collector_open(struct collector *collector, struct error *err)
{
	int rc = plan_resources(collector, err);
	if (rc)
		return rc;

	const struct store_options store_options = {
		.path = collector->options.data,
		.retention_ns = collector->options.retention_ns,
		.seconds_after_ns = collector->options.seconds_after_ns,
		.minutes_after_ns = collector->options.minutes_after_ns,
		.upgrade = collector->options.upgrade_store,
		.accept_clock = collector->options.accept_clock,
		.memory_bytes = collector->memory.store_bytes,
		.disk_free_bytes = collector->options.disk_free_bytes,
		.size_bytes_max = collector->options.retention_bytes,
	};

	rc = open_access(collector, err);
	if (!rc)
		rc = open_store(collector, &store_options, err);
	if (!rc)
		rc = open_audit(collector, err);
	if (rc)
		return rc;
	collector->api.audit = collector->audit;
	collector->backups = (struct backup_service){ .store = collector->store,
						      .data = collector->options.data };
	collector->receiver =
		receiver_new(collector->store, &collector->metrics, collector->limits);
	if (!collector->receiver)
		return error_set(err, -ENOMEM, "out of memory");

	rc = open_symbolizer(collector, err);
	if (rc)
		return rc;

	collector->api.symbols = collector->symbols;
	collector->api.store = collector->store;
	collector->api.receiver = collector->receiver;
	collector->api.metrics = &collector->metrics;
	collector->api.doors = (struct doors){ .store = collector->store,
					       .metrics = &collector->metrics,
					       .budget = &collector->messages,
					       .limits = collector->limits };
	rc = open_spikes(collector, err);
	if (!rc)
		rc = open_profile_metrics(collector, err);
	collector->api.profile_metrics = collector->profile_metrics;
	if (!rc)
		rc = open_http(collector, err);
	if (!rc)
		rc = open_admin(collector, err);
	if (!rc)
		rc = open_grpc(collector, err);
	if (!rc)
		atomic_store(&collector->api.ready, true);
	return rc;
}

/** People and scripts wait for this line. A wildcard address is printed as localhost. */
static void print_address(const struct collector *collector)
{
	const char *address = collector->options.http;

	if (!collector->http_port) {
		printf("cairn-collector %s: serving at %s\n", CAIRN_VERSION, address);
		fflush(stdout);
		return;
	}
	int host_size = (int)(strrchr(address, ':') - address);
	bool all = host_size == 0 || strncmp(address, "0.0.0.0:", 8) == 0 ||
		   strncmp(address, "[::]:", 5) == 0;

	printf("cairn-collector %s: open http%s://%.*s:%d/\n", CAIRN_VERSION,
	       collector->tls ? "s" : "", all ? 9 : host_size, all ? "localhost" : address,
	       collector->http_port);
	fflush(stdout);
}

/** Log when the clock's state changes. */
static void report_clock(struct collector *collector)
{
	struct store_health health;

	store_read_health(collector->store, &health);
	if (*health.clock && !collector->clock_doubted)
		log_error("collector: retention stopped: the clock is in doubt: %s; set the clock, "
			  "or restart with --accept-clock if it is right",
			  health.clock);
	else if (!*health.clock && collector->clock_doubted)
		log_info("collector: retention resumed: the clock is right again");
	collector->clock_doubted = *health.clock;
}

/** That there is no launcher was logged at the start. */
static void report_symbolizer(struct collector *collector)
{
	struct error err = { 0 };
	uint64_t now_ns = clock_monotonic_ns();
	uint32_t failures = symbol_spaces_take_failures(collector->symbols, &err);

	metrics_add(&collector->metrics, METRIC_DEBUG_FILES_FAILED, failures);
	if (!failures || !collector->launcher ||
	    (collector->symbols_logged_ns &&
	     now_ns - collector->symbols_logged_ns < REPEATED_LOG_S * NS_PER_SECOND))
		return;
	log_warn("debug files: not read: %s; its frames stay without names", err.text);
	collector->symbols_logged_ns = now_ns;
}

static void report_launcher(struct collector *collector)
{
	uint32_t restarts = confined_launcher_restarts(collector->launcher);
	uint32_t more = restarts - collector->launcher_restarts;

	if (!more)
		return;
	collector->launcher_restarts = restarts;
	metrics_add(&collector->metrics, METRIC_LAUNCHER_RESTARTS, more);
	log_warn("debug files: the launcher of their readers died and was started again (%u times "
		 "since start); check the kernel's log for the OOM killer",
		 restarts);
}

/** Is it time for a line about what fails every second? Damaged files fail once per change: each is logged. */
static bool may_log(int rc, uint64_t *logged_ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (rc != -EINVAL && *logged_ns &&
	    ns_between(*logged_ns, now_ns) < REPEATED_LOG_S * NS_PER_SECOND)
		return false;
	*logged_ns = now_ns;
	return true;
}

static void maintain(struct collector *collector, uint64_t *logged_ns)
{
	struct error err = { 0 };
	int rc = store_maintain(collector->store, clock_realtime_ns(), &err);
	report_clock(collector);
	report_symbolizer(collector);
	report_launcher(collector);
	if (!rc)
		return;
	metrics_add(&collector->metrics, METRIC_MAINTENANCE_ERRORS, 1);
	if (may_log(0, logged_ns))
		log_error("collector: maintenance failed: %s; retrying every second", err.text);
}

static void log_certificate(struct collector *collector)
{
	uint64_t now_s = clock_realtime_ns() / NS_PER_SECOND;
	uint64_t expires_s = tls_server_expires_s(collector->tls);

	if (expires_s > now_s + CERTIFICATE_LEFT_S ||
	    now_s < collector->certificate_logged_s + CERTIFICATE_LOG_S)
		return;
	collector->certificate_logged_s = now_s;
	if (expires_s <= now_s)
		log_error(
			"collector: %s has expired: agents and browsers refuse it; renew the file, "
			"no restart is needed",
			collector->options.tls_cert);
	else
		log_warn(
			"collector: %s expires in %llu hours; renew the file, no restart is needed",
			collector->options.tls_cert,
			(unsigned long long)(expires_s - now_s) / 3600);
}

/** Read changed limits. The old ones are in force if that fails. */
static void refresh_limits(struct collector *collector)
{
	struct error err = { 0 };
	int rc = tenant_limits_refresh(collector->limits, &err);

	if (rc < 0 && may_log(rc, &collector->limits_logged_ns))
		log_error("collector: limits not reloaded: %s; the old ones are still used; "
			  "correct the "
			  "file",
			  err.text);
	else if (rc > 0)
		log_info("collector: limits reloaded from %s", collector->options.limits);
}

/** Read changed certificates and credentials. What was read before is used on if that fails. */
static void refresh_credentials(struct collector *collector)
{
	struct error err = { 0 };
	int rc = collector->tls ? tls_server_refresh(collector->tls, &err) : 0;

	if (rc < 0 && may_log(rc, &collector->tls_logged_ns))
		log_error("collector: certificates not reloaded: %s; the old ones are still used, "
			  "and revoked certificates accepted; correct the file",
			  err.text);
	else if (rc > 0)
		log_info("collector: certificates reloaded");
	rc = access_refresh(collector->access, &err);
	if (rc < 0 && may_log(rc, &collector->access_logged_ns))
		log_error("collector: credentials not reloaded: %s; the old ones are still used, "
			  "and revoked tokens accepted; correct the file",
			  err.text);
	else if (rc > 0)
		log_info("collector: credentials reloaded from %s", collector->options.access);
	if (collector->tls)
		log_certificate(collector);
}

/** Run maintenance once a second until one of @signals arrives. */
static void run(struct collector *collector, const sigset_t *signals)
{
	const struct timespec second = { .tv_sec = 1 };
	uint64_t logged_ns = 0;

	for (;;) {
		int number = sigtimedwait(signals, NULL, &second);

		if (number > 0 && number != SIGHUP) {
			log_info("collector: shutting down: %s", strsignal(number));
			return;
		}
		refresh_credentials(collector);
		refresh_limits(collector);
		maintain(collector, &logged_ns);
		boost_table_maintain(receiver_boosts(collector->receiver));
		backup_service_poll(&collector->backups);
	}
}

/** Block the signals before any thread starts: only run() receives them. */
static void block_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals,
		  SIGHUP); // read credentials again at once; they are read when they change anyway
	pthread_sigmask(SIG_BLOCK, signals, NULL);
	signal(SIGPIPE, SIG_IGN); // raised by writes to closed connections
}

static int make_token(const struct collector_options *options)
{
	struct error err = { 0 };
	int rc = token_command(options, stdout, &err);

	if (rc)
		fprintf(stderr, "cairn-collector: %s\n", err.text);
	return rc ? 1 : 0;
}

/** Does --backup or --restore. Returns the exit status. */
static int copy_store(const struct collector_options *options)
{
	struct error err = { 0 };
	int rc = options->backup ? backup_make(options->data, options->backup, &err)
				 : rocksdb_store_restore(options->restore, options->data, &err);

	if (rc) {
		fprintf(stderr, "cairn-collector: %s\n", err.text);
		return 1;
	}
	printf("%s %s\n", options->backup ? "backed up" : "restored", options->data);
	return 0;
}

/** Do what is asked for instead of running. Returns the exit status, -1 if nothing is. */
static int run_command(const struct collector_options *options)
{
	if (options->new_token)
		return make_token(options);
	if (options->check)
		return check_command(options->check);
	return options->backup || options->restore ? copy_store(options) : -1;
}

int main(int argc, char **argv)
{
	// Too large for the stack.
	static struct collector collector = { .rpc_events = RPC_EVENTS_INIT };
	enum config_outcome outcome;
	struct error err = { 0 };
	sigset_t signals;

	if (confined_launcher_is_wanted(argc, argv))
		return confined_launcher_serve(confined_tasks, ARRAY_SIZE(confined_tasks));
	standard_streams_occupy();
	if (collector_options_parse(&collector.options, argc, argv, &outcome, &err)) {
		fprintf(stderr, "cairn-collector: %s\n", err.text);
		return EXIT_USAGE;
	}
	int code = outcome == CONFIG_EXIT ? 0 : run_command(&collector.options);
	if (code >= 0) {
		collector_options_deinit(&collector.options);
		return standard_streams_finish("cairn-collector", code);
	}

	block_signals(&signals);
	start_launcher(&collector);
	if (collector_open(&collector, &err)) {
		fprintf(stderr, "cairn-collector: %s\n", err.text);
		collector_close(&collector);
		return 1;
	}
	print_address(&collector);
	run(&collector, &signals);
	collector_close(&collector);
	return 0;
}
