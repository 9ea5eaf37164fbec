// SPDX-License-Identifier: Apache-2.0
// CUPTI sessions with a double of libcupti that refuses what the real one refuses. The test is the application, too: it loads
// the helper.
#include "agent/gpu/cupti_session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/gpu/cupti/cupti.h"
#include "tests/gpu/cupti_double.h"
#include "tests/gpu/load_double.h"
#include "tests/test.h"

#define MS 1000000L

enum { WINDOW_MS = 200, WINDOWS_MAX = 50, ANSWER_S = 20 };

static cupti_double_launch_fn launch;
static cupti_double_state_fn seen;
static __typeof__(&cuptiSubscribe) subscribe;
static __typeof__(&cuptiUnsubscribe) unsubscribe;
static _Atomic bool stop;

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){ ns / (1000 * MS), ns % (1000 * MS) }, NULL);
}

static void *symbol(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found)
		fail_msg("%s", dlerror());
	return found;
}

// As the driver does at cuInit(), once.
static void load_helper(void)
{
	char path[PATH_MAX];
	int (*initialize)(void);

	if (launch)
		return;
	void *cupti = dlopen(double_path("libcupti.so.12", path), RTLD_NOW);
	*(void **)&launch = symbol(cupti, "cupti_double_launch");
	*(void **)&seen = symbol(cupti, "cupti_double_state");
	*(void **)&subscribe = symbol(cupti, "cuptiSubscribe");
	*(void **)&unsubscribe = symbol(cupti, "cuptiUnsubscribe");
	void *helper = dlopen(double_path("libcairn_cupti.so", path), RTLD_NOW);
	*(void **)&initialize = symbol(helper, "InitializeInjection");
	EXPECT_EQ(1, initialize(), "the helper");
}

// The helper's thread may need a moment after loading.
static struct cupti_session *find(void)
{
	struct cupti_session *session = NULL;
	struct error err = { 0 };

	load_helper();
	int rc = cupti_session_find(getpid(), &session, &err);
	if (rc == -EPERM || rc == -EACCES)
		return NULL;
	if (rc)
		fail_msg("%s", err.text);
	return session;
}

static void *launch_kernels(void *context)
{
	(void)context;
	for (unsigned int i = 0; !atomic_load(&stop); i++) {
		launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, i % 4 ? "gemm" : "softmax", 1,
		       i % 4 ? 3000 : 1000);
		if (i % 50 == 0)
			launch(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, NULL, 10, 500);
		sleep_ns(MS / 10);
	}
	return NULL;
}

static struct cupti_result result_of(struct cupti_session *session)
{
	struct cupti_result result = { 0 };
	int rc = -EAGAIN;

	for (int i = 0; i < ANSWER_S * 100 && rc == -EAGAIN; i++) {
		rc = cupti_session_read(session, &result);
		if (rc == -EAGAIN)
			sleep_ns(10 * MS);
	}
	EXPECT_EQ(0, rc, "the session's end");
	return result;
}

// On a busy machine the application may launch too little in a session: then repeat it.
static struct cupti_result measure(struct cupti_session *session, uint32_t records_max,
				   uint32_t one_in, uint64_t kernels_min)
{
	const struct cupti_session_options options = { WINDOW_MS, records_max, one_in };
	struct cupti_result result = { 0 };
	pthread_t thread;

	atomic_store(&stop, false);
	EXPECT_EQ(0, pthread_create(&thread, NULL, launch_kernels, NULL), "thread");
	for (int i = 0; i < WINDOWS_MAX && result.gpu_kernels < kernels_min; i++) {
		cupti_result_deinit(&result);
		EXPECT_EQ(0, cupti_session_begin(session, &options), "begin");
		result = result_of(session);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_true(result.gpu_kernels >= kernels_min);
	return result;
}

TEST(subscribes_during_a_session_only)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	EXPECT_EQ(0, seen().subscribed, "at load");
	EXPECT_EQ(0, seen().callbacks, "at load");

	struct cupti_result result = measure(session, CUPTI_RECORDS, 1, 1);
	EXPECT_EQ(CUPTI_STATE_IDLE, result.state, "state");
	assert_false(seen().is_subscribed);
	assert_false(seen().is_enabled);
	EXPECT_EQ(0, seen().callbacks_enabled, "callbacks left on");
	EXPECT_EQ(0, seen().buffers, "buffers left");
	EXPECT_EQ(0, seen().refused, "calls that the real libcupti would refuse");
	uint32_t callbacks = seen().callbacks;
	launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "late", 1, 1);
	EXPECT_EQ(callbacks, seen().callbacks, "after the session");
	cupti_result_deinit(&result);
}

TEST(records_name_duration_and_launch)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();
	uint64_t sum = 0, of_graphs = 0;

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	struct cupti_result result = measure(session, CUPTI_RECORDS, 1, 60);
	EXPECT_EQ(result.gpu_kernels, result.record_count, "all are recorded");
	for (uint32_t i = 0; i < result.record_count; i++) {
		const struct cupti_record *record = &result.records[i];
		const char *name = result.names[record->name];
		bool is_graph = !*name,
		     follows = i && record[-1].correlation == record->correlation;

		EXPECT_EQ(is_graph                ? 500
			  : !strcmp(name, "gemm") ? 3000
						  : 1000,
			  record->duration_ns, name);
		if (i && !follows)
			assert_true(record[-1].correlation < record->correlation);
		of_graphs += is_graph;
		EXPECT_EQ(7, record->stream, "stream");
		sum += record->duration_ns;
	}
	EXPECT_EQ(3, result.name_count, "names");
	EXPECT_EQ(result.gpu_kernel_ns, sum, "sum");
	EXPECT_EQ(0, of_graphs % 10, "kernels of a graph share its launch's correlation");
	EXPECT_EQ(0, result.records_dropped, "dropped");
	assert_true(result.overhead_ns > 0 && result.baseline_launches > 0);
	assert_true(cupti_result_overhead(&result) < 0.5);
	cupti_result_deinit(&result);
}

TEST(samples_one_launch_in_n_and_sums_all)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	struct cupti_result result = measure(session, CUPTI_RECORDS, 4, 60);
	assert_true(result.record_count < result.gpu_kernels * 3 / 5);
	assert_true(result.record_count > 0);
	cupti_result_deinit(&result);
}

TEST(session_ends_with_the_last_record)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	struct cupti_result result = measure(session, 5, 1, 5);
	EXPECT_EQ(5, result.record_count, "records");
	EXPECT_EQ(CUPTI_STATE_IDLE, result.state, "state");
	EXPECT_EQ(result.gpu_kernels, result.record_count + result.records_dropped,
		  "the rest counted");
	cupti_result_deinit(&result);
}

static void *launch_without_end(void *context)
{
	(void)context;
	while (!atomic_load(&stop))
		launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "gemm", 1, 3000);
	return NULL;
}

TEST(session_over_budget_ends_early)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();
	const struct cupti_session_options options = { CUPTI_SESSION_MS_MAX, CUPTI_RECORDS, 1 };
	struct cupti_result result = { 0 };
	pthread_t thread;

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	atomic_store(&stop, false);
	EXPECT_EQ(0, pthread_create(&thread, NULL, launch_without_end, NULL), "thread");
	for (int i = 0; i < WINDOWS_MAX && result.state != CUPTI_STATE_OVER_BUDGET; i++) {
		cupti_result_deinit(&result);
		EXPECT_EQ(0, cupti_session_begin(session, &options), "begin");
		result = result_of(session);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	EXPECT_EQ(CUPTI_STATE_OVER_BUDGET, result.state, "state");
	EXPECT_EQ(1, cupti_result_overhead(&result) > CUPTI_OVERHEAD_PERCENT_MAX / 100.0,
		  "its share");
	EXPECT_EQ(1, result.baseline_ns + result.measured_ns < CUPTI_SESSION_MS_MAX * 1000000ULL,
		  "it was ended early");
	EXPECT_EQ(0, seen().is_subscribed, "unsubscribed");
	cupti_result_deinit(&result);
}

TEST(yields_to_the_applications_own_profiler)
{
	_cleanup_(cupti_session_freep) struct cupti_session *session = find();
	CUpti_SubscriberHandle profiler;

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	EXPECT_EQ(CUPTI_SUCCESS, subscribe(&profiler, NULL, NULL), "torch.profiler");
	const struct cupti_session_options options = { WINDOW_MS, 100, 1 };
	EXPECT_EQ(0, cupti_session_begin(session, &options), "begin");
	struct cupti_result result = result_of(session);
	EXPECT_EQ(CUPTI_STATE_IN_USE, result.state, "state");
	EXPECT_EQ(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, result.code, "why");
	EXPECT_EQ(0, result.record_count, "records");
	assert_true(seen().is_subscribed); // still
	assert_false(seen().is_enabled);
	EXPECT_EQ(CUPTI_SUCCESS, unsubscribe(profiler), "still subscribed");
	cupti_result_deinit(&result);
}

TEST(freeing_cancels_the_session)
{
	struct cupti_session *session = find();
	const struct cupti_session_options options = { CUPTI_SESSION_MS_MAX, 100, 1 };

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	EXPECT_EQ(0, cupti_session_begin(session, &options), "begin");
	EXPECT_EQ(-EBUSY, cupti_session_begin(session, &options), "one at a time");
	for (int i = 0; i < 500 && !seen().is_subscribed; i++)
		sleep_ns(10 * MS);
	assert_true(seen().is_subscribed);
	cupti_session_free(session);
	for (int i = 0; i < 500 && seen().is_subscribed; i++)
		sleep_ns(10 * MS);
	assert_false(seen().is_subscribed);

	// A cancelled session leaves the helper ready.
	_cleanup_(cupti_session_freep) struct cupti_session *again = find();
	for (int i = 0; i < 500 && cupti_session_begin(again, &options) == -EBUSY; i++)
		sleep_ns(10 * MS);
}

static pid_t start_child(bool pretends)
{
	pid_t child = fork();

	if (child)
		return child;
	// Without seals it could be truncated while it is mapped. A child does not inherit the helper's memory.
	int fd = pretends ? memfd_create(CUPTI_SHARED_NAME, 0) : -1;
	if (fd >= 0 && ftruncate(fd, sizeof(struct cupti_shared)) == 0)
		mmap(NULL, sizeof(struct cupti_shared), PROT_READ, MAP_SHARED, fd, 0);
	pause();
	_exit(0);
}

TEST(refuses_memory_not_made_by_the_helper)
{
	pid_t impostor, other;
	struct cupti_session *session = find();
	struct error err = { 0 };
	int rc = -ENOENT;

	if (!session)
		SKIP("/proc/PID/map_files cannot be opened here");
	cupti_session_free(session);
	impostor = start_child(true);
	other = start_child(false);
	for (int i = 0; i < 500 && rc == -ENOENT; i++) {
		rc = cupti_session_find(impostor, &session, &err);
		sleep_ns(10 * MS);
	}
	int other_rc = cupti_session_find(other, &session, &err);
	kill(impostor, SIGKILL);
	kill(other, SIGKILL);
	EXPECT_EQ(-EPROTO, rc, "not sealed");
	EXPECT_EQ(-ENOENT, other_rc, "a process without a helper");
	EXPECT_EQ(-ESRCH, cupti_session_find(1 << 22, &session, &err), "no process");
}

RUN_TESTS(cmocka_unit_test(subscribes_during_a_session_only),
	  cmocka_unit_test(records_name_duration_and_launch),
	  cmocka_unit_test(samples_one_launch_in_n_and_sums_all),
	  cmocka_unit_test(session_ends_with_the_last_record),
	  cmocka_unit_test(session_over_budget_ends_early),
	  cmocka_unit_test(yields_to_the_applications_own_profiler),
	  cmocka_unit_test(freeing_cancels_the_session),
	  cmocka_unit_test(refuses_memory_not_made_by_the_helper))
