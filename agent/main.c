// SPDX-License-Identifier: Apache-2.0
// cairn-agent: profiles this machine and sends the profiles to a collector. One loop over a few
// descriptors; the sender has a thread of its own.

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/admin/admin_server.h"
#include "agent/boost_control.h"
#include "agent/bpf/machine.h"
#include "agent/guard/watchdog.h"
#include "agent/metrics.h"
#include "agent/node_check.h"
#include "agent/options.h"
#include "agent/pods.h"
#include "agent/profiler.h"
#include "agent/program_pages.h"
#include "agent/relabel/relabel_file.h"
#include "agent/restrictions.h"
#include "agent/ship/identity.h"
#include "agent/ship/protocol.h"
#include "agent/ship/sender.h"
#include "agent/sources/own_labels.h"
#include "agent/sources/source.h"
#include "agent/stats.h"
#include "agent/symbols/source_line_worker.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/confined/confined_launcher.h"
#include "base/confined/confined_process.h"
#include "base/contract/profile_types.h"
#include "base/event_log.h"
#include "base/http/http_listen.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "base/version.h"
#include "proto/rpc.h"

#define FIRST_EXPORT_NS (1 * NS_PER_SECOND) // so that there is soon something to look at
#define TICK_NS         (500 * NS_PER_MS)   // profiler_tick() needs at least one a second
#define STATS_NS        (60 * NS_PER_SECOND)
/* After a signal that ends the agent, processes are still analyzed for so long. */
#define SIGNALLED_NS_MAX (2 * NS_PER_SECOND)

enum {
	EXIT_USAGE = 2,
	FLUSH_MS = 5 * 1000,
	INTERVAL_JITTER_PERCENT = 10, // either way, so that a fleet's batches do not come at once
	EXPORT_FAILURES_MAX = 10,     // in a row: then something is broken for good
	TURN_MS_MAX = 10 * 1000, // of the loop: a longer one has hung; the slowest known takes 2 s
	// Larger blocks return to the system when freed. Without this, glibc raises its limit with the
	// first large table.
	MALLOC_MMAP_BYTES = 256 << 10,
	MALLOC_ARENAS = 2, // gRPC's threads hardly allocate; each arena costs memory
};

static const struct confined_task *const confined_tasks[] = { &source_line_task };

enum wakeup {
	WAKEUP_PROFILER,
	WAKEUP_EXPORT,
	WAKEUP_TICK,
	WAKEUP_SIGNAL,
	WAKEUP_ADMIN,
	WAKEUP_COUNT,
};

struct agent {
	struct options options;
	struct confined_launcher *launcher; // NULL: nothing runs confined
	struct restrictions *restrictions;  // NULL: refused system calls are not counted
	struct event_log *events;
	struct hung_processes hung;  // left alone
	struct relabel_rules *rules; // NULL: none
	struct container_records *containers;
	struct pods pods;
	struct profiler *profiler;
	struct boost_control boost;
	struct sender *sender, *otlp; // NULL: none
	struct admin_server *admin;   // NULL: none
	int admin_fd;                 // its socket, before it runs; -1: none
	int epoll_fd;
	int export_fd; // timers
	int tick_fd;
	int signal_fd;
	uint32_t export_failures; // in a row
	bool read_failing;        // and logged
	uint64_t signalled_ns;    // since when a signal waits, or the agent stops; 0: neither
	bool is_stopping;
	uint64_t next_stats_ns;
	struct stats stats_before;   // of the last line in the log
	struct stats stats_exported; // of the last export interval
	struct labels own_labels;    // of the agent's own series
};

static void agent_deinit(struct agent *agent)
{
	cleanup_closep(&agent->epoll_fd);
	cleanup_closep(&agent->export_fd);
	cleanup_closep(&agent->tick_fd);
	cleanup_closep(&agent->signal_fd);
	admin_server_close(agent->admin);
	cleanup_closep(&agent->admin_fd);
	watchdog_stop();
	hung_processes_close(&agent->hung);
	profiler_close(agent->profiler);
	pods_close(&agent->pods);
	container_records_free(agent->containers);
	relabel_rules_free(agent->rules);
	sender_close(agent->sender, 0, NULL);
	sender_close(agent->otlp, 0, NULL);
	confined_launcher_free(agent->launcher);
	restrictions_free(agent->restrictions);
	event_log_free(agent->events);
	labels_deinit(&agent->own_labels);
	options_deinit(&agent->options);
}

// ---- starting -------------------------------------------------------------------------------

static void fill_signal_set(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGUSR1);
}

// Before the first thread, so that all of them leave the signals to the loop.
static int open_signals(struct agent *agent, struct error *err)
{
	sigset_t set;

	fill_signal_set(&set);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return error_errno(err, -errno, "signals");
	agent->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return agent->signal_fd < 0 ? error_errno(err, -errno, "signals") : 0;
}

static int open_senders(struct agent *agent, struct error *err)
{
	const struct options *options = &agent->options;
	const struct rpc_security security = {
		.ca_file = options->tls_ca,
		.certificate_file = options->tls_cert,
		.key_file = options->tls_key,
		.token_file = options->token_file,
	};
	const struct rpc_security otlp_security = {
		.ca_file = options->otlp_tls_ca,
		.headers_file = options->otlp_headers,
	};
	struct sender_options sender = {
		.address = options->collector,
		.security = &security,
		.spool_bytes = options->spool_bytes,
		.spool_folder = options->spool_folder,
		.spool_folder_bytes = options->spool_folder_bytes,
		.boosts = &agent->boost.mailbox,
		SENDER_DEFAULTS,
	};
	int rc = identity_of_node(options->node, &sender.agent, err);

	if (!rc)
		rc = identity_of_start(&sender.boot, err);
	const struct sender_options otlp = {
		.protocol = &otlp_protocol,
		.address = options->otlp,
		.security = &otlp_security,
		.agent = sender.agent,
		.boot = sender.boot,
		.spool_bytes = options->spool_bytes,
		SENDER_DEFAULTS,
	};
	if (!rc && options->collector)
		rc = sender_open(&sender, &agent->sender, err);
	return !rc && options->otlp ? sender_open(&otlp, &agent->otlp, err) : rc;
}

static void read_stats(const struct agent *agent, struct stats *ret_stats)
{
	const struct stats_sources sources = {
		.sender = agent->sender,
		.otlp = agent->otlp,
		.restrictions = agent->restrictions,
		.launcher = agent->launcher,
		.containers = agent->containers,
		.pods = agent->pods.table,
		.pod_watch = agent->pods.watch,
		.boosts = &agent->boost.boosts,
	};

	stats_read(ret_stats, agent->profiler, &sources);
}

static int add_series(void *context, struct export_interval *interval)
{
	struct agent *agent = context;
	struct stats now;

	read_stats(agent, &now);
	int rc = stats_add_series(&agent->stats_exported, &now, &agent->own_labels, interval);
	agent->stats_exported = now;
	return rc ? rc : boost_control_add_series(&agent->boost, &agent->own_labels, interval);
}

// Before the first thread. Without it everything works but what runs confined.
static void start_launcher(struct agent *agent)
{
	struct error err = { 0 };

	if (!agent->options.lines)
		return;
	if (confined_launcher_start(&agent->launcher, &err))
		event_warn(agent->events, "source lines",
			   "not read: the sandbox does not start: %s; frames show functions only; "
			   "allow seccomp(2) and executing /proc/self/exe, or run without --lines",
			   err.text);
	else if (!confined_launcher_has_landlock(agent->launcher))
		event_info(agent->events, "source lines",
			   "read without Landlock: kernel has none; seccomp confines the reader");
}

// Without those that are needed the profiler does not open, and says so.
static void report_capabilities(struct agent *agent)
{
	const struct capability *missing;
	struct error err = { 0 };
	uint64_t effective = 0;
	uint32_t position = 0;

	if (machine_read_capabilities(&effective, &err))
		return; // nor can the profiler
	while ((missing = machine_next_missing(effective, &position)))
		if (missing->use == CAPABILITY_NAMES)
			event_warn(agent->events, "capabilities",
				   "%s is missing: %s; add it to the agent's capabilities",
				   missing->name, missing->without);
}

/*
 * A supervisor waits 10 to 90 s, and then kills. Identifying new files may take seconds on a busy machine: from some time
 * after the signal on, what is not known yet stays without a name, and all samples are sent.
 */
static bool is_over(void *context)
{
	struct agent *agent = context;
	struct pollfd signals = { .fd = agent->signal_fd, .events = POLLIN };

	if (!agent->is_stopping && poll(&signals, 1, 0) <= 0)
		agent->signalled_ns = 0;
	else if (!agent->signalled_ns)
		agent->signalled_ns = clock_monotonic_ns();
	return agent->signalled_ns &&
	       ns_between(agent->signalled_ns, clock_monotonic_ns()) >= SIGNALLED_NS_MAX;
}

static int open_profiler(struct agent *agent, struct error *err)
{
	const struct profiler_options options = {
		.frequency_hz = (uint32_t)agent->options.frequency_hz,
		.slot_ns = agent->options.slot_ns,
		.pid = (pid_t)agent->options.pid,
		.limit_series = true,
		.folds_thread_names = !agent->options.exact_thread_names,
		.events = agent->events,
		.ready_ns_max = PROFILER_READY_NS_MAX,
		.add_series = add_series,
		.is_over = is_over,
		.context = agent,
		.hung = &agent->hung,
		.labels = agent->options.labels, // the options outlive the profiler
		.attribute_patterns = agent->options.attribute_patterns,
		.pods = agent->pods.table,
		.containers = agent->containers,
		.rules = agent->rules,
		.cache_folder = agent->options.cache_folder,
		.line_launcher = agent->launcher,
		.debuginfod_urls = agent->options.debuginfod,
		.debug_files_bytes = agent->options.debug_files_bytes,
		.sources = agent->options.sources | SOURCE_GPU |
			   (agent->options.has_overhead_budget ? SOURCE_GOVERNOR : 0),
		.wakers = agent->options.wakers,
		.overhead_budget_percent = agent->options.overhead_budget_percent,
		.overhead_interval_ns = agent->options.overhead_interval_ns,
		.boost_hz = (uint32_t)agent->options.boost_hz,
		.boost_budget_percent = agent->options.boost_budget_percent,
		.cupti_interval_ns = agent->options.cupti_interval_ns,
	};

	return profiler_open(&options, &agent->profiler, err);
}

static int watch(struct agent *agent, int fd, enum wakeup wakeup)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = wakeup };

	return epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int set_timer(int fd, uint64_t first_ns, uint64_t every_ns)
{
	const struct itimerspec spec = {
		.it_value = { first_ns / NS_PER_SECOND, first_ns % NS_PER_SECOND },
		.it_interval = { every_ns / NS_PER_SECOND, every_ns % NS_PER_SECOND },
	};

	return timerfd_settime(fd, 0, &spec, NULL) ? -errno : 0;
}

static int open_loop(struct agent *agent, struct error *err)
{
	uint64_t interval_ns = agent->options.interval_ns;

	agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	agent->export_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	agent->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (agent->epoll_fd < 0 || agent->export_fd < 0 || agent->tick_fd < 0)
		return error_errno(err, -errno, "loop");

	int rc = watch(agent, profiler_fd(agent->profiler), WAKEUP_PROFILER);
	if (!rc)
		rc = watch(agent, agent->export_fd, WAKEUP_EXPORT);
	if (!rc)
		rc = watch(agent, agent->tick_fd, WAKEUP_TICK);
	if (!rc)
		rc = watch(agent, agent->signal_fd, WAKEUP_SIGNAL);
	if (!rc && agent->admin)
		rc = watch(agent, admin_server_fd(agent->admin), WAKEUP_ADMIN);
	if (!rc)
		rc = set_timer(agent->export_fd,
			       interval_ns < FIRST_EXPORT_NS ? interval_ns : FIRST_EXPORT_NS, 0);
	if (!rc)
		rc = set_timer(agent->tick_fd, TICK_NS, TICK_NS);
	return rc ? error_errno(err, rc, "loop") : 0;
}

// Without the file the agent may hang on a process again.
static void open_hung_processes(struct agent *agent)
{
	struct error cause = { 0 };

	if (!agent->options.cache_folder)
		return;
	if (hung_processes_open(agent->options.cache_folder, &agent->hung, &cause))
		event_warn(
			agent->events, "agent",
			"cannot save which processes it hung on: %.240s; it may hang on them again "
			"after a restart; check --cache",
			cause.text);
	for (uint32_t i = 0; i < agent->hung.count; i++)
		event_warn(agent->events, "agent",
			   "reads nothing of process %u (no labels, symbols or unwind tables): an "
			   "earlier agent hung on it; restart that process, or remove "
			   "%s/hung-processes",
			   agent->hung.processes[i].pid, agent->options.cache_folder);
}

static int start_watchdog(struct agent *agent, struct error *err)
{
	const struct watchdog_options options = {
		.subject = "agent",
		.advice = "a supervisor such as systemd starts it again; report this line to "
			  "cairn's developers",
		.turn_ms_max = TURN_MS_MAX,
		.hung = &agent->hung,
	};

	return watchdog_start(&options, err);
}

static int open_containers(struct agent *agent, struct error *err)
{
	const struct container_folders folders = {
		.docker = agent->options.docker_folder,
		.podman = agent->options.podman_folder,
	};

	agent->containers = container_records_new(&folders, agent->rules);
	return agent->containers ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int start(struct agent *agent, struct error *err)
{
	int port, rc = open_signals(agent, err);

	agent->events = event_log_new();
	agent->boost.events = agent->events;
	agent->boost.boosts.limits = (struct boost_limits){
		.hz_max = (uint32_t)agent->options.boost_hz,
		.interval_ns = agent->options.interval_ns,
	};
	if (!rc && (!agent->events ||
		    own_labels(&agent->options.labels, SERVICE_AGENT, &agent->own_labels)))
		rc = error_set(err, -ENOMEM, "out of memory");
	if (!rc)
		report_capabilities(agent);
	if (!rc)
		start_launcher(agent);
	if (!rc)
		open_hung_processes(agent);
	if (!rc && agent->options.relabel)
		rc = relabel_file_read(agent->options.relabel, &agent->rules, err);
	if (!rc)
		rc = open_containers(agent, err);
	if (!rc && agent->options.admin)
		rc = http_listen(agent->options.admin, "admin", &agent->admin_fd, &port, err);
	if (!rc)
		agent->restrictions = restrictions_impose(agent->events, agent->admin_fd);
	// Early: the pods are known before the first samples are shipped.
	if (!rc)
		rc = pods_open(&agent->options, agent->rules, agent->events, &agent->pods, err);
	// The profiler first: it is what fails for most users, and it fails at once.
	if (!rc)
		rc = start_watchdog(agent, err); // it publishes what runs: a process may hang it
	if (!rc)
		rc = open_profiler(agent, err);
	if (!rc)
		rc = open_senders(agent, err);
	if (!rc && agent->options.admin)
		rc = admin_server_open(agent->options.admin, take_fd(agent->admin_fd),
				       &agent->admin, err);
	if (!rc)
		rc = open_loop(agent, err);
	return rc;
}

static void log_start(const struct agent *agent)
{
	const struct options *options = &agent->options;
	const struct budget_stats *budget = &agent->stats_before.profiler.budget;
	const struct running_ready *ready = &agent->stats_before.profiler.ready;
	char process[48] = "";

	if (options->pid)
		snprintf(process, sizeof(process), " in process %llu",
			 (unsigned long long)options->pid);
	log_info("agent: started cairn-agent " CAIRN_VERSION
		 ": sampling %d CPUs at %llu Hz%s, exporting to %s%s%s%s every %.3g s",
		 get_nprocs(), (unsigned long long)options->frequency_hz, process,
		 options->collector ? options->collector : "",
		 options->collector && options->otlp ? " and " : "", options->otlp ? "OTLP " : "",
		 options->otlp ? options->otlp : "", options->interval_ns / 1e9);
	log_info("agent: unwind tables ready for %u of %u running processes; stacks of the others "
		 "may be truncated in the first seconds",
		 ready->processes - ready->waiting, ready->processes);
	if (agent->stats_before.profiler.budget_known)
		log_info("agent: overhead budget %.2f %% of a core, %.2f %% of this machine",
			 100 * budget->budget, 100 * budget->budget / budget->cores);
	else
		log_info("agent: no overhead budget");
	if (agent->admin)
		log_info("agent: /healthz, /readyz and /metrics at %s", options->admin);
}

static void log_events(struct agent *agent)
{
	struct event event;

	while (event_log_next(agent->events, &event))
		log_line(event.severity, "%s: %s", event.subject, event.text);
}

// ---- running --------------------------------------------------------------------------------

/* Takes the profile, which the senders' threads only read. */
static void push(struct agent *agent, struct profile *profile)
{
	if (agent->otlp)
		sender_push(agent->otlp, agent->sender ? profile_share(profile) : profile);
	if (agent->sender)
		sender_push(agent->sender, profile);
}

static int export(struct agent *agent, struct error *err)
{
	struct profile *profile = NULL;
	int rc = profiler_drain(agent->profiler, &profile, err);

	if (!rc) {
		agent->export_failures = 0;
		push(agent, profile);
		return 0;
	}
	if (++agent->export_failures >= EXPORT_FAILURES_MAX)
		return rc;
	log_error("profiler: export interval not sent: %s; its samples go with the next one, some "
		  "may be "
		  "lost (failure %u in a row, the agent ends after %d); if out of memory, give it "
		  "more",
		  err->text, agent->export_failures, EXPORT_FAILURES_MAX);
	return 0;
}

static uint64_t jittered(uint64_t interval_ns)
{
	uint64_t span_ns = interval_ns / 100 * (2 * INTERVAL_JITTER_PERCENT);

	return interval_ns - span_ns / 2 + (uint64_t)random() % (span_ns + 1);
}

static int on_export(struct agent *agent, struct error *err)
{
	uint64_t expirations;

	(void)!read(agent->export_fd, &expirations, sizeof(expirations));
	int rc = export(agent, err);
	if (rc)
		return rc;
	rc = set_timer(agent->export_fd, jittered(agent->options.interval_ns), 0);
	return rc ? error_errno(err, rc, "loop") : 0;
}

static void report(struct agent *agent, enum log_level level)
{
	char text[STATS_TEXT_BYTES];
	struct stats now;

	read_stats(agent, &now);
	stats_format(&agent->stats_before, &now, text);
	log_line(level, "agent: %s", text);
	stats_post_losses(&agent->stats_before, &now, agent->events);
	log_events(agent);
	agent->stats_before = now;
}

// What starting and a busy minute needed and this one does not is given back.
static void release_memory(void)
{
	program_pages_release();
	malloc_trim(0);
}

static void on_tick(struct agent *agent)
{
	uint64_t expirations;

	(void)!read(agent->tick_fd, &expirations, sizeof(expirations));
	profiler_tick(agent->profiler);
	boost_control_tick(&agent->boost, agent->profiler, clock_monotonic_ns());
	log_events(agent);
	if (clock_monotonic_ns() < agent->next_stats_ns)
		return;
	report(agent, LOG_LEVEL_DEBUG);
	agent->next_stats_ns = agent->stats_before.time_ns + STATS_NS;
	release_memory();
}

static void on_profiler(struct agent *agent)
{
	struct error err = { 0 };
	int rc = profiler_read(agent->profiler, &err);

	if (rc && !agent->read_failing)
		log_error(
			"profiler: %s; samples have no stacks until a retry succeeds; restart the "
			"agent if the counter ring_full keeps rising",
			err.text);
	else if (!rc && agent->read_failing)
		log_info("profiler: reads the ring buffer again");
	agent->read_failing = rc != 0;
}

/*
 * Ready once a batch has been acknowledged: a rollout with a wrong address or token stops then at its first nodes. A
 * collector that goes away later makes no agent unready: it samples on, and its batches wait.
 */
static void on_admin(struct agent *agent)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	struct admin_report report = { 0 };
	char reason[ADMIN_REASON_BYTES];
	struct stats now;

	read_stats(agent, &now);
	metrics_encode(&now, &text);
	bool waits_for_otlp = agent->otlp && !now.otlp.batches_sent;
	bool waits = agent->sender && !now.sender.batches_sent;
	snprintf(reason, sizeof(reason),
		 "no batch has reached the %s %.100s yet: see the agent's log",
		 waits ? "collector" : "OTLP endpoint",
		 waits ? agent->options.collector : agent->options.otlp);
	report.metrics = buffer_string(&text);
	report.metrics_size = text.rc ? 0 : text.size;
	report.not_ready = waits || waits_for_otlp ? reason : NULL;
	admin_server_report(agent->admin, &report);
}

// Returns whether the agent is to stop.
static bool on_signal(struct agent *agent)
{
	struct signalfd_siginfo info;

	while (read(agent->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGUSR1)
			return true;
		report(agent, LOG_LEVEL_INFO);
	}
	return false;
}

// What the watchdog calls a turn if it knows no more.
static const char *const stages[WAKEUP_COUNT] = {
	[WAKEUP_PROFILER] = "reading stacks",     [WAKEUP_EXPORT] = "exporting",
	[WAKEUP_TICK] = "its housekeeping",       [WAKEUP_SIGNAL] = "reading a signal",
	[WAKEUP_ADMIN] = "reporting its metrics",
};

static int run(struct agent *agent, struct error *err)
{
	struct epoll_event events[WAKEUP_COUNT];
	bool stop = false;
	int rc = 0;

	while (!rc && !stop) {
		int count = epoll_wait(agent->epoll_fd, events, WAKEUP_COUNT, -1);

		if (count < 0 && errno != EINTR)
			return error_errno(err, -errno, "loop");
		for (int i = 0; i < count && !rc; i++) {
			watchdog_begin_turn(stages[events[i].data.u32]);
			switch (events[i].data.u32) {
			case WAKEUP_PROFILER:
				on_profiler(agent);
				break;
			case WAKEUP_EXPORT:
				rc = on_export(agent, err);
				break;
			case WAKEUP_TICK:
				on_tick(agent);
				break;
			case WAKEUP_SIGNAL:
				stop |= on_signal(agent);
				break;
			case WAKEUP_ADMIN:
				on_admin(agent);
				break;
			}
		}
		watchdog_end_turn();
	}
	return rc;
}

// ---- stopping -------------------------------------------------------------------------------

/* Both return whether all batches are sent. */
static bool close_collector(struct agent *agent, uint32_t flush_ms)
{
	struct sender_rest rest = { 0 };
	uint64_t lost = sender_close(take(agent->sender), flush_ms, &rest);

	if (rest.spool.kept)
		log_info("agent: stopped: %llu batches wait in %s for the next start",
			 (unsigned long long)rest.spool.kept, agent->options.spool_folder);
	if (lost)
		log_error(
			"agent: stopped: dropped %llu batches (%llu samples): collector %s did not "
			"acknowledge them: %s; set --spool-dir to keep batches for the next start",
			(unsigned long long)lost, (unsigned long long)rest.spool.lost_samples,
			agent->options.collector,
			*rest.failure ? rest.failure : "no attempt was made");
	return !lost && !rest.spool.kept;
}

static bool close_otlp(struct agent *agent, uint32_t flush_ms)
{
	struct sender_rest rest = { 0 };
	uint64_t lost = sender_close(take(agent->otlp), flush_ms, &rest);

	if (lost)
		log_error("agent: stopped: dropped %llu batches (%llu samples): OTLP endpoint %s "
			  "did not accept them: %s",
			  (unsigned long long)lost, (unsigned long long)rest.spool.lost_samples,
			  agent->options.otlp,
			  *rest.failure ? rest.failure : "no attempt was made");
	return !lost;
}

// Export the last, short interval, too. A second signal ends the agent at once.
static void stop(struct agent *agent)
{
	struct error err = { 0 };
	sigset_t set;

	agent->is_stopping = true;
	admin_server_close(take(agent->admin));
	pod_watch_stop(agent->pods.watch); // it takes a second; what is known stays
	watchdog_begin_turn("stopping the sampling");
	profiler_stop(agent->profiler);
	watchdog_begin_turn("exporting the last interval");
	if (export(agent, &err))
		log_error("profiler: dropped the samples of the final export interval: %s",
			  err.text);
	watchdog_begin_turn("detaching from the kernel");
	profiler_close(take(agent->profiler));
	watchdog_begin_turn("sending the last batches");
	fill_signal_set(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	uint32_t flush_ms = agent->sender && agent->otlp ? FLUSH_MS / 2 : FLUSH_MS;
	bool is_all = close_collector(agent, flush_ms);
	if (close_otlp(agent, flush_ms) && is_all)
		log_info("agent: stopped: all batches sent");
}

int main(int argc, char **argv)
{
	_cleanup_(agent_deinit) struct agent agent = { .boost = BOOST_CONTROL_INIT,
						       .epoll_fd = -1,
						       .export_fd = -1,
						       .tick_fd = -1,
						       .signal_fd = -1,
						       .admin_fd = -1,
						       .hung.fd = -1 };
	struct error err = { 0 };
	bool exit_now = false;
	// `cairn doctor` gives its own name.
	const char *program =
		argc && strcmp(argv[0], "cairn doctor") == 0 ? argv[0] : "cairn-agent";

	if (confined_launcher_is_wanted(argc, argv))
		return confined_launcher_serve(confined_tasks, ARRAY_SIZE(confined_tasks));
	standard_streams_occupy();
	if (options_parse(argc, argv, &agent.options, &exit_now, &err)) {
		fprintf(stderr, "%s: %s\n", program, err.text);
		return EXIT_USAGE;
	}
	if (exit_now)
		return standard_streams_finish(program, EXIT_SUCCESS);
	log_set_level(agent.options.log_level);
	if (agent.options.check)
		return standard_streams_finish(program, node_check(&agent.options));
	mallopt(M_ARENA_MAX, MALLOC_ARENAS);
	mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
	srandom((unsigned int)(clock_realtime_ns() ^ (uint64_t)getpid()));

	if (start(&agent, &err)) {
		fprintf(stderr, "cairn-agent: %s\n", err.text);
		return EXIT_FAILURE;
	}
	read_stats(&agent, &agent.stats_before);
	log_start(&agent);
	log_events(&agent);
	agent.next_stats_ns = agent.stats_before.time_ns + STATS_NS;

	int rc = run(&agent, &err);
	if (rc)
		log_error("agent: stopping: %s", err.text);
	stop(&agent);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
