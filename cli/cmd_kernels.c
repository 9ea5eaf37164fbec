// SPDX-License-Identifier: Apache-2.0
// cairn kernels: how long a process's kernels ran on its GPU, in one window of the CUPTI helper that the
// process was started with, and who launched them (docs/gpu.md).

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/gpu/cupti_session.h"
#include "base/cleanup.h"
#include "base/config.h"
#include "base/demangle.h"
#include "base/profile.h"
#include "cli/command.h"
#include "cli/function_table.h"
#include "cli/kernel_stacks.h"
#include "cli/pid.h"

enum {
	WINDOW_MS = 1000, // of which half measures kernels
	GRACE_MS = 30000, // CUPTI took more than 5 s to begin on some services
	POLL_MS = 20,
	SLOWDOWN_TOLD = 2,  // percent of slowdown from which a line says so
	STACKS_OF_MAX = 10, // kernels with stacks: those that take long
	STACKS_TOLD = 90,   // percent of the time that has stacks, below which a line says so
};

struct kernels_arguments {
	uint64_t pid, session_ms, one_in;
	bool stacks;
};

/* What there is to print. */
struct kernels_answer {
	struct cupti_result result;
	struct profile *launches; // NULL: no stacks were asked for
};

static const char notes[] =
	"The process must have been started with the helper:\n"
	"  CUDA_INJECTION64_PATH=/path/to/libcairn_cupti.so\n"
	"Half of the window only counts launches, for comparison; the other half measures\n"
	"kernels. When it is over nothing is measured or subscribed any more; libcupti stays\n"
	"loaded. Where the process uses CUPTI itself (torch.profiler), the helper steps\n"
	"aside; a profiler that first starts in the window finds CUPTI taken. With --stacks\n"
	"it is said who launched the kernels that took longest; that takes some seconds\n"
	"more, and 5 us of each launch that is recorded. Agents keep both, in windows of\n"
	"their own:\n"
	"  cairn query SERVICE --type gpu-kernel\n"
	"\n"
	"  cairn kernels 1234\n"
	"  cairn kernels 1234 --stacks\n"
	"  cairn kernels 1234 --window 200 --one-in 16    # many launches\n";

static int parse(int argc, char **argv, struct kernels_arguments *arguments,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "window", 'w', CONFIG_UINT, &arguments->session_ms, NULL, 2, CUPTI_SESSION_MS_MAX,
		  "MS", "how long the window is (default 1000)" },
		{ "one-in", 'n', CONFIG_UINT, &arguments->one_in, NULL, 1, 1 << 20, "N",
		  "record the kernels of one launch in so many (default 1)" },
		{ "stacks", 's', CONFIG_BOOL, &arguments->stacks, NULL, 0, 0, NULL,
		  "the stacks that launched them, Python and native, too" },
	};
	const struct config_program program = {
		.name = "cairn kernels",
		.summary = "Measure how long a process's kernels run on its GPU.",
		.usage = "cairn kernels PID [--stacks] [--window MS] [--one-in N]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (first_word + 1 != argc || pid_parse(argv[first_word], &arguments->pid))
		return error_set(err, -EINVAL, "one PID is asked for; see `cairn kernels --help`");
	return 0;
}

// ---- the window -----------------------------------------------------------------------------

static int wait_for_result(struct cupti_session *window, uint64_t session_ms,
			   struct cupti_result *ret_result, struct error *err)
{
	int rc = -EAGAIN;

	for (uint64_t ms = 0; rc == -EAGAIN && ms < session_ms + GRACE_MS; ms += POLL_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
		rc = cupti_session_read(window, ret_result);
	}
	return rc ? error_errno(err, rc, "the helper's answer") : 0;
}

static int check_state(const struct cupti_result *result, struct error *err)
{
	switch (result->state) {
	case CUPTI_STATE_IDLE:
	case CUPTI_STATE_OPEN:
	case CUPTI_STATE_OVER_BUDGET: // what there is is shown
		return 0;
	case CUPTI_STATE_IN_USE:
		return error_set(
			err, -EBUSY,
			"the process uses CUPTI itself (torch.profiler, Nsight): the helper "
			"stepped aside");
	case CUPTI_STATE_NO_LIBRARY:
		return error_set(err, -ENOENT,
				 "the process finds no libcupti.so.12 or 13: put it "
				 "on its LD_LIBRARY_PATH");
	default:
		return error_set(err, -EIO, "CUPTI refused (CUptiResult %d)", result->code);
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

static void print_rows(const struct kernel_row *rows, const struct kernels_answer *answer,
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
		if (answer->launches && i < STACKS_OF_MAX)
			kernel_stacks_print(answer->launches, name, stdout);
	}
}

static void print_cost(const struct cupti_result *result, const struct kernels_arguments *arguments)
{
	double slowdown = 100 * cupti_result_slowdown(result);

	printf("\n%" PRIu64 " kernels ran for %.3f ms in %.0f ms of time", result->kernels,
	       (double)result->kernel_ns / 1e6, (double)result->measured_ns / 1e6);
	printf("; %u recorded", result->record_count);
	if (arguments->one_in > 1)
		printf(", those of one launch in %" PRIu64, arguments->one_in);
	printf(", %" PRIu64 " left out.\n", result->records_dropped);
	printf("The helper took %.2f %% of a CPU; CUPTI began in %.1f ms and ended in %.1f ms.\n",
	       100 * cupti_result_overhead(result), (double)result->enable_ns / 1e6,
	       (double)result->disable_ns / 1e6);
	if (result->state == CUPTI_STATE_OVER_BUDGET)
		printf("The window was ended early: the helper took more than %d %% of a CPU. Try "
		       "--one-in.\n",
		       CUPTI_OVERHEAD_PERCENT_MAX);
	if (slowdown >= SLOWDOWN_TOLD)
		printf("While kernels were measured there were %.0f %% fewer launches than just "
		       "before.\n",
		       slowdown);
}

// A launch before the window began, or one whose stack there was no room for.
static void print_unseen(const struct kernels_answer *answer,
			 const struct kernels_arguments *arguments, uint64_t sum_ns)
{
	double recorded_ns = (double)sum_ns * (double)arguments->one_in;
	double seen = answer->launches && recorded_ns > 0
			      ? 100 * (double)kernel_stacks_sum(answer->launches) / recorded_ns
			      : 100;

	if (seen < STACKS_TOLD)
		printf("Of %.0f %% of the recorded time the launch was seen; the rest has no "
		       "stacks.\n",
		       seen);
}

static int print_answer(const struct kernels_answer *answer,
			const struct kernels_arguments *arguments, struct error *err)
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

static void answer_deinit(struct kernels_answer *answer)
{
	cupti_result_deinit(&answer->result);
	profile_free(answer->launches);
}

static int measure(const struct kernels_arguments *arguments, struct kernels_answer *answer,
		   struct error *err)
{
	const struct cupti_session_options options = {
		.session_ms = (uint32_t)arguments->session_ms,
		.records_max = CUPTI_RECORDS,
		.one_in = (uint32_t)arguments->one_in,
	};
	_cleanup_(cupti_session_freep) struct cupti_session *window = NULL;
	int rc = cupti_session_find((pid_t)arguments->pid, &window, err);

	if (rc)
		return rc;
	if (arguments->stacks)
		return kernel_stacks_measure((pid_t)arguments->pid, &options, &answer->result,
					     &answer->launches, err);
	if (cupti_session_begin(window, &options))
		return error_set(err, -EBUSY, "somebody else has a window open there");
	return wait_for_result(window, arguments->session_ms, &answer->result, err);
}

static int run(const struct kernels_arguments *arguments, struct error *err)
{
	_cleanup_(answer_deinit) struct kernels_answer answer = { 0 };
	int rc = measure(arguments, &answer, err);

	if (!rc)
		rc = check_state(&answer.result, err);
	return rc ? rc : print_answer(&answer, arguments, err);
}

int cmd_kernels(int argc, char **argv)
{
	struct kernels_arguments arguments = { .session_ms = WINDOW_MS, .one_in = 1 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &arguments, &outcome, &err);

	if (rc || outcome == CONFIG_EXIT) {
		if (rc)
			fprintf(stderr, "cairn kernels: %s\n", err.text);
		return rc ? EXIT_USAGE : EXIT_OK;
	}
	rc = run(&arguments, &err);
	if (rc)
		fprintf(stderr, "cairn kernels: %s\n", err.text);
	return rc ? EXIT_FAILED : EXIT_OK;
}
