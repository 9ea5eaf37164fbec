// SPDX-License-Identifier: Apache-2.0
// cairn gpu-kernels: how long the GPU kernels of a process run, measured in one CUPTI session, and which stacks launch them.
// The process must have been started with the CUPTI helper (docs/gpu.md).

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/gpu/cupti_session.h"
#include "base/cleanup.h"
#include "base/config/config.h"
#include "base/symbols/demangle.h"
#include "base/profile/profile.h"
#include "cli/command.h"
#include "cli/function_table.h"
#include "cli/gpu_kernel_stacks.h"
#include "cli/pid.h"

enum {
	SESSION_MS = 1000, // the second half measures GPU kernels
	GRACE_MS = 30000,  // CUPTI took more than 5 s to begin in some services
	POLL_MS = 20,
	SLOWDOWN_SHOWN = 2,     // percent of slowdown from which a line reports it
	STACKED_KERNELS = 10,   // GPU kernels that are printed with stacks
	STACKS_SHARE_SHOWN = 90 // percent of the time with stacks, below which a line reports it
};

struct gpu_kernels_arguments {
	uint64_t pid, session_ms, one_in;
	bool stacks;
};

/* What is printed. */
struct gpu_kernels_answer {
	struct cupti_result result;
	struct profile *launches; // NULL: without --stacks
};

static const char notes[] =
	"Runs one CUPTI session in the process, which must have been started with the helper:\n"
	"  CUDA_INJECTION64_PATH=/path/to/libcairn_cupti.so\n"
	"The first half of the session counts launches as a baseline, the second half measures\n"
	"GPU kernels. Afterwards nothing is subscribed; libcupti stays loaded. There is no\n"
	"session while the process uses CUPTI itself (torch.profiler, Nsight); a profiler that\n"
	"first starts during a session fails. --stacks adds the stacks that launched the GPU\n"
	"kernels; it takes some seconds longer, and 5 us for each recorded launch. Agents run\n"
	"such sessions, too:\n"
	"  cairn query SERVICE --type gpu-kernel\n"
	"\n"
	"  cairn gpu-kernels 1234\n"
	"  cairn gpu-kernels 1234 --stacks\n"
	"  cairn gpu-kernels 1234 --session 200 --one-in 16    # many launches\n";

static int parse(int argc, char **argv, struct gpu_kernels_arguments *arguments,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "session", 'l', CONFIG_UINT, &arguments->session_ms, NULL, 2,
		  CUPTI_SESSION_MS_MAX, "MS", "length of the CUPTI session (default 1000)" },
		{ "one-in", 'n', CONFIG_UINT, &arguments->one_in, NULL, 1, 1 << 20, "N",
		  "record the GPU kernels of one launch in N (default 1)" },
		{ "stacks", 's', CONFIG_BOOL, &arguments->stacks, NULL, 0, 0, NULL,
		  "print the stacks that launched them, Python and native" },
	};
	const struct config_program program = {
		.name = "cairn gpu-kernels",
		.summary = "Measure how long the GPU kernels of a process run.",
		.usage = "cairn gpu-kernels PID [--stacks] [--session MS] [--one-in N]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (first_word + 1 != argc || pid_parse(argv[first_word], &arguments->pid))
		return error_set(err, -EINVAL, "give one PID; see `cairn gpu-kernels --help`");
	return 0;
}

// ---- the session ----------------------------------------------------------------------------

static int wait_for_result(struct cupti_session *session, uint64_t session_ms,
			   struct cupti_result *ret_result, struct error *err)
{
	int rc = -EAGAIN;

	for (uint64_t ms = 0; rc == -EAGAIN && ms < session_ms + GRACE_MS; ms += POLL_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
		rc = cupti_session_read(session, ret_result);
	}
	return rc ? error_errno(err, rc, "no result from the CUPTI helper") : 0;
}

static int check_state(const struct cupti_result *result, struct error *err)
{
	switch (result->state) {
	case CUPTI_STATE_IDLE:
	case CUPTI_STATE_OPEN:
	case CUPTI_STATE_OVER_BUDGET: // the shortened session is printed
		return 0;
	case CUPTI_STATE_IN_USE:
		return error_set(err, -EBUSY,
				 "the process uses CUPTI itself (torch.profiler, Nsight); try "
				 "again when that is "
				 "over");
	case CUPTI_STATE_NO_LIBRARY:
		return error_set(err, -ENOENT,
				 "the process finds no libcupti.so.12 or 13: put it "
				 "on its LD_LIBRARY_PATH");
	default:
		return error_set(err, -EIO, "CUPTI returned an error (CUptiResult %d)",
				 result->code);
	}
}

// ---- the table ------------------------------------------------------------------------------

struct kernel_row {
	uint64_t count, sum_ns;
	uint32_t name;
};

static int by_falling_sum(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;

	return (x->sum_ns < y->sum_ns) - (x->sum_ns > y->sum_ns);
}

static void print_rows(const struct kernel_row *rows, const struct gpu_kernels_answer *answer,
		       uint64_t sum_ns)
{
	const struct cupti_result *result = &answer->result;
	char name[DEMANGLED_BYTES_MAX];

	printf("%8s %12s %9s %12s  %s\n", "share", "time", "kernels", "mean", "name");
	for (uint32_t i = 0; i < result->name_count && rows[i].count; i++) {
		const char *mangled = result->names[rows[i].name];

		demangle(*mangled ? mangled : "(no name)", name);
		frame_name_clean(name);
		printf("%7.1f%% %9.3f ms %9" PRIu64 " %9.2f us  %s\n",
		       100.0 * (double)rows[i].sum_ns / (double)sum_ns,
		       (double)rows[i].sum_ns / 1e6, rows[i].count,
		       (double)rows[i].sum_ns / (double)rows[i].count / 1e3, name);
		if (answer->launches && i < STACKED_KERNELS)
			gpu_kernel_stacks_print(answer->launches, name, stdout);
	}
}

static void print_cost(const struct cupti_result *result,
		       const struct gpu_kernels_arguments *arguments)
{
	double slowdown = 100 * cupti_result_slowdown(result);

	printf("\n%" PRIu64 " GPU kernels ran for %.3f ms in %.0f ms of wall time",
	       result->gpu_kernels, (double)result->gpu_kernel_ns / 1e6,
	       (double)result->measured_ns / 1e6);
	printf("; %u recorded", result->record_count);
	if (arguments->one_in > 1)
		printf(" (one launch in %" PRIu64 ")", arguments->one_in);
	printf(", %" PRIu64 " dropped.\n", result->records_dropped);
	printf("Overhead: helper %.2f %% of a CPU; CUPTI took %.1f ms to begin and %.1f ms to "
	       "end.\n",
	       100 * cupti_result_overhead(result), (double)result->enable_ns / 1e6,
	       (double)result->disable_ns / 1e6);
	if (result->state == CUPTI_STATE_OVER_BUDGET)
		printf("The session ended early: the helper exceeded its overhead budget (%d %% of "
		       "a CPU); use a larger --one-in.\n",
		       CUPTI_OVERHEAD_PERCENT_MAX);
	if (slowdown >= SLOWDOWN_SHOWN)
		printf("Slowdown: %.0f %% fewer launches than in the baseline.\n", slowdown);
}

// Without a stack: launched before the session, or dropped because the map was full.
static void print_unseen(const struct gpu_kernels_answer *answer,
			 const struct gpu_kernels_arguments *arguments, uint64_t sum_ns)
{
	double recorded_ns = (double)sum_ns * (double)arguments->one_in;
	double seen = answer->launches && recorded_ns > 0
			      ? 100 * (double)gpu_kernel_stacks_sum(answer->launches) / recorded_ns
			      : 100;

	if (seen < STACKS_SHARE_SHOWN)
		printf("%.0f %% of the recorded time has stacks: the other launches were not "
		       "seen.\n",
		       seen);
}

static int print_answer(const struct gpu_kernels_answer *answer,
			const struct gpu_kernels_arguments *arguments, struct error *err)
{
	const struct cupti_result *result = &answer->result;
	_cleanup_free_ struct kernel_row *rows = calloc(result->name_count + 1, sizeof(*rows));
	uint64_t sum_ns = 0;

	if (!rows)
		return error_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < result->name_count; i++)
		rows[i].name = i;
	for (uint32_t i = 0; i < result->record_count; i++) {
		const struct cupti_record *record = &result->records[i];

		rows[record->name].count++;
		rows[record->name].sum_ns += record->duration_ns;
		sum_ns += record->duration_ns;
	}
	qsort(rows, result->name_count, sizeof(*rows), by_falling_sum);
	if (sum_ns)
		print_rows(rows, answer, sum_ns);
	print_cost(result, arguments);
	print_unseen(answer, arguments, sum_ns);
	if (fflush(stdout) || ferror(stdout))
		return error_errno(err, -errno, "cannot write to standard output");
	return 0;
}

static void answer_deinit(struct gpu_kernels_answer *answer)
{
	cupti_result_deinit(&answer->result);
	profile_free(answer->launches);
}

static int measure(const struct gpu_kernels_arguments *arguments, struct gpu_kernels_answer *answer,
		   struct error *err)
{
	const struct cupti_session_options options = {
		.session_ms = (uint32_t)arguments->session_ms,
		.records_max = CUPTI_RECORDS,
		.one_in = (uint32_t)arguments->one_in,
	};
	_cleanup_(cupti_session_freep) struct cupti_session *session = NULL;
	int rc = cupti_session_find((pid_t)arguments->pid, &session, err);

	if (rc)
		return rc;
	if (arguments->stacks)
		return gpu_kernel_stacks_measure((pid_t)arguments->pid, &options, &answer->result,
						 &answer->launches, err);
	if (cupti_session_begin(session, &options))
		return error_set(err, -EBUSY, "another CUPTI session runs in process %d; try again",
				 (int)arguments->pid);
	return wait_for_result(session, arguments->session_ms, &answer->result, err);
}

static int run(const struct gpu_kernels_arguments *arguments, struct error *err)
{
	_cleanup_(answer_deinit) struct gpu_kernels_answer answer = { 0 };
	int rc = measure(arguments, &answer, err);

	if (!rc)
		rc = check_state(&answer.result, err);
	return rc ? rc : print_answer(&answer, arguments, err);
}

int cmd_gpu_kernels(int argc, char **argv)
{
	struct gpu_kernels_arguments arguments = { .session_ms = SESSION_MS, .one_in = 1 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &arguments, &outcome, &err);

	if (rc || outcome == CONFIG_EXIT) {
		if (rc)
			fprintf(stderr, "cairn gpu-kernels: %s\n", err.text);
		return rc ? EXIT_USAGE : EXIT_OK;
	}
	rc = run(&arguments, &err);
	if (rc)
		fprintf(stderr, "cairn gpu-kernels: %s\n", err.text);
	return rc ? EXIT_FAILED : EXIT_OK;
}
