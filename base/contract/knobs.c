// SPDX-License-Identifier: Apache-2.0
#include "base/contract/knobs.h"

#include <stdio.h>
#include <string.h>

#include "base/contract/label_names.h"
#include "base/labels.h"
#include "base/utf8.h"

#define SWITCH   "`off`, `on`"
#define FRACTION "`1/4`, `1/16`, `1/64`; `1/1` is all"
#define WEIGHTED                                                                                  \
	"Each sample counts for more: sums stay right, short peaks can be too high, rare stacks " \
	"are missing."

static const struct knob_spec knobs[KNOB_COUNT] = {
	[KNOB_WAKERS] = { "wakers", "Wakers", "wakers {step}", SWITCH,
			  "Off-wake time and waker stacks are not recorded." },
	[KNOB_OFF_CPU_UNWIND] = { "off_cpu_unwind", "Off-CPU stacks", "off-CPU stacks at {step}",
				  FRACTION,
				  "Only this part of the off-CPU stacks and of the stacks of GPU "
				  "driver calls is captured; more of intervals above 1 "
				  "ms. " WEIGHTED " Wall clock stays exact." },
	[KNOB_PAGE_FAULTS_UNWIND] = { "page_faults_unwind", "Page-fault stacks",
				      "page-fault stacks at {step}", FRACTION,
				      "Only this part of the page faults is captured. " WEIGHTED },
	[KNOB_CPU_FREQUENCY] = { "cpu_frequency", "CPU sampling", "CPU sampling at {step}",
				 "`99Hz`, `49Hz`, `25Hz`, `19Hz`",
				 "CPUs are sampled less often. " WEIGHTED },
	[KNOB_PROCESS_OFF_CPU] = { "process_off_cpu", "Off-CPU stacks of one process",
				   "off-CPU stacks of {process} {step}", SWITCH,
				   "No off-CPU stacks of this process are captured: its off-CPU "
				   "time and run queue have a gap. Wall clock stays exact." },
	[KNOB_PAGE_FAULTS] = { "page_faults", "Page faults", "page faults {step}", SWITCH,
			       "Page faults are not recorded: memory growth has a gap." },
	[KNOB_OFF_CPU] = { "off_cpu", "Off-CPU, run queue, wall clock",
			   "off-CPU, run queue and wall clock {step}", SWITCH,
			   "Context switches are not recorded: these profiles have a gap." },
	[KNOB_GPU_MEMORY] = { "gpu_memory", "GPU memory in use", "GPU memory in use {step}", SWITCH,
			      "The agent missed calls that allocate or free, so GPU memory in use "
			      "is not recorded. Once it is on again, it has only what is "
			      "allocated from then on." },
	[KNOB_OVERHEAD_BUDGET] = { "overhead_budget", "Overhead budget", "overhead budget {step}",
				   "`" STEP_EXCEEDED "`, `" STEP_MET "`",
				   "The overhead is above the budget and no shedding step would "
				   "help." },
	[KNOB_SAMPLING] = { "sampling", "All sampling", "all sampling {step} by a boost", SWITCH,
			    "A boost has stopped all sampling for a while (`cairn boost "
			    "--stop`): all profiles have a gap." },
};

const struct knob_spec *knob_spec(enum knob knob)
{
	return (unsigned int)knob < KNOB_COUNT ? &knobs[knob] : NULL;
}

// A process may call itself nothing, or something that is no text: then @comm is "".
static void clean_comm(const struct knob_setting *setting, char comm[KNOB_COMM_BYTES + 1])
{
	memcpy(comm, setting->comm, KNOB_COMM_BYTES);
	comm[KNOB_COMM_BYTES] = 0;
	utf8_clean(comm);
	if (strspn(comm, " ?") == strlen(comm))
		comm[0] = 0;
}

int knob_set_labels(const struct knob_setting *setting, struct labels *labels)
{
	char comm[KNOB_COMM_BYTES + 1], pid[12];
	int rc = labels_set(labels, LABEL_KNOB, knob_spec(setting->knob)->token);

	if (!rc)
		rc = labels_set(labels, LABEL_STEP, setting->step);
	if (rc || !setting->pid)
		return rc;
	clean_comm(setting, comm);
	snprintf(pid, sizeof(pid), "%u", setting->pid);
	rc = labels_set(labels, LABEL_PID, pid);
	return rc ? rc : labels_set(labels, LABEL_COMM, comm);
}

static void name_process(const struct knob_setting *setting, char *text, size_t size)
{
	char comm[KNOB_COMM_BYTES + 1];

	clean_comm(setting, comm);
	if (comm[0])
		snprintf(text, size, "%s (%u)", comm, setting->pid);
	else
		snprintf(text, size, "process %u", setting->pid);
}

const char *knob_sentence(const struct knob_setting *setting, char text[KNOB_SENTENCE_BYTES])
{
	const struct knob_spec *spec = knob_spec(setting->knob);
	char process[KNOB_COMM_BYTES + 16];
	size_t used = 0;

	text[0] = 0;
	name_process(setting, process, sizeof(process));
	for (const char *at = spec ? spec->sentence : ""; *at && used < KNOB_SENTENCE_BYTES - 1;) {
		const char *field = *at != '{'                      ? NULL
				    : strncmp(at, "{step}", 6) == 0 ? setting->step
								    : process;
		int written = field ? snprintf(text + used, KNOB_SENTENCE_BYTES - used, "%s", field)
				    : snprintf(text + used, KNOB_SENTENCE_BYTES - used, "%c", *at);

		used += (size_t)written;
		at = field ? strchr(at, '}') + 1 : at + 1;
	}
	return text;
}
