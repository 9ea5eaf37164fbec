// SPDX-License-Identifier: Apache-2.0
// Subject: base/import/import_file.h
// Files of each format, with known stacks: what they are, and what they add up to.
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/export/collapsed.h"
#include "base/import/import_file.h"

#define AT_NS (1700000000 * NS_PER_SECOND)
#define WALL  "wall:wall:nanoseconds:wall:nanoseconds"
#define COUNT "process_cpu:samples:count:cpu:nanoseconds"

static const char speedscope[] =
	"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"profiles\":["
	"{\"type\":\"sampled\",\"name\":\"T "
	"\\\"1\\\"\",\"unit\":\"seconds\",\"startValue\":0.0,\"endValue\":0.03,"
	"\"samples\":[[0,1],[0,1],[0]],\"weights\":[0.01,0.01,0.01]},"
	"{\"type\":\"evented\",\"name\":\"T2\",\"unit\":\"milliseconds\",\"startValue\":5,"
	"\"endValue\":45,\"events\":["
	"{\"type\":\"O\",\"frame\":0,\"at\":5},{\"type\":\"O\",\"frame\":1,\"at\":15},{\"type\":"
	"\"C\",\"frame\":1,\"at\":35},"
	"{\"type\":\"C\",\"frame\":0,\"at\":45}]}],"
	"\"shared\":{\"frames\":[{\"name\":\"main\"},{\"name\":\"work\",\"file\":\"a.py\",\"line\":"
	"3}]}}";

// Self times: outer 100 - 60 ms, inner 60 ms; the kernel runs beside them; B without E ends with the trace.
static const char chrome[] =
	"{\"baseTimeNanoseconds\":1,\"traceEvents\":["
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{"
	"\"name\":\"main thread\"}},"
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"inner\",\"pid\":1,"
	"\"tid\":2,\"ts\":20000.5,\"dur\":60000},"
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,"
	"\"tid\":2,\"ts\":0,\"dur\":100000,\"args\":{\"a\":[1]}},"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm<float, "
	"4>\",\"pid\":0,\"tid\":7,\"ts\":30000,\"dur\":\"50000\"},"
	"{\"ph\":\"B\",\"name\":\"f\",\"pid\":1,\"tid\":\"x\",\"ts\":10000,"
	"\"args\":{\"filename\":\"b.py\",\"line\":7}},"
	"{\"ph\":\"B\",\"name\":\"g\",\"pid\":1,\"tid\":\"x\",\"ts\":15000},"
	"{\"ph\":\"E\",\"pid\":1,\"tid\":\"x\",\"ts\":25000},"
	"{\"ph\":\"X\",\"name\":\"part\",\"pid\":1,\"tid\":5,\"ts\":0,\"dur\":10000},"
	"{\"ph\":\"X\",\"name\":\"whole\",\"pid\":1,\"tid\":5,\"ts\":0,\"dur\":40000},"
	"{\"ph\":\"i\",\"name\":\"instant\",\"pid\":1,\"tid\":2,\"ts\":1}]}";

static const char perf[] =
	"# captured\n"
	"python3 worker  1234/1235 [001] 12345.600000:   10101010 cpu-clock:pppH: \n"
	"\tffffffff81000010 schedule+0x10 ([kernel.kallsyms])\n"
	"\t    7f0000001234 read+0x14 (/usr/lib/libc.so.6)\n"
	"\t    55550000abcd [unknown] (/usr/bin/python3.11)\n"
	"\n"
	"swapper     0 [000] 12345.610000:          1 cycles:P: \n"
	"\tffffffff81000020 std::vector<int, a>::push(int)+0x1 (inlined)\n"
	"\n"
	"nginx   77 12345.620000: syscalls:sys_enter_read: fd: 0x1\n"
	"\t            1234 main (/usr/sbin/nginx)\n"
	"\n"
	"python3 worker  1234/1235 [001] 12345.640000:   10101010 cpu-clock:pppH: \n"
	"\tffffffff81000010 schedule+0x10 ([kernel.kallsyms])\n"
	"\t    7f0000001234 read+0x14 (/usr/lib/libc.so.6)\n"
	"\t    55550000abcd [unknown] (/usr/bin/python3.11)\n";

static const char austin[] =
	"# austin: 3.7.0\n# interval: 100\n# mode: wall\n\n"
	"P12;T0:34;/a/app.py:main:9;app.py:work:12 1500\nP12;T0:34;/a/app.py:main:9 500\n";

struct fixture {
	struct importer importer;
	struct error err;
};

static int import(struct fixture *f, const char *text, const char *type, uint32_t hz)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	const struct import_source source = { .labels = &labels, .type = type, .end_ns = AT_NS };
	enum import_format format;

	*f = (struct fixture){ 0 };
	labels_set(&labels, LABEL_PROCESS, "p");
	assert_int_equal(importer_init(&f->importer, AT_NS + NS_PER_SECOND, 1000), 0);
	int rc = import_format_of(text, strlen(text), &format, &f->err);
	return rc ? rc
		  : import_file(&f->importer, &source, format, hz, text, strlen(text), &f->err);
}

TEST(formats_add_up_exactly)
{
	static const struct {
		const char *text, *type, *stacks, *what;
		uint32_t hz;
	} rows[] = {
		{ speedscope, PROFILE_TYPE_CPU, "p;main 30000000\np;main;work (a.py:3) 40000000\n",
		  "speedscope", 0 },
		{ chrome, WALL,
		  "p;f (b.py:7) 80000000\np;f (b.py:7);g 10000000\np;outer 40000000\np;outer;inner "
		  "60000000\n"
		  "p;whole 30000000\np;whole;part 10000000\n",
		  "Chrome trace", 0 },
		{ chrome, PROFILE_TYPE_GPU_KERNEL, "p;gemm<float, 4> 50000000\n", "GPU kernels",
		  0 },
		{ perf, PROFILE_TYPE_CPU, "p;[python3.11];read;schedule_[k] 20202020\n",
		  "perf's clock", 0 },
		{ perf, COUNT, "p;std::vector<int, a>::push(int) 1\n", "perf's cycles", 0 },
		{ perf, "perf:syscalls_sys_enter_read:count:event:count", "p;main 1\n",
		  "perf's events", 0 },
		{ austin, WALL,
		  "p;main (app.py:9) 500000\np;main (app.py:9);work (app.py:12) 1500000\n",
		  "Austin", 0 },
		{ "a;b 2\na 1\n", COUNT, "p;a 1\np;a;b 2\n", "collapsed", 0 },
		{ "a;b 2\na 1\n", PROFILE_TYPE_CPU, "p;a 10000000\np;a;b 20000000\n",
		  "collapsed at 100 Hz", 100 },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer text = { 0 };
		struct fixture f;

		if (import(&f, row->text, NULL, row->hz))
			fail_msg("%s: %s", row->what, f.err.text);
		collapsed_encode(f.importer.profile, row->type, &text);
		EXPECT_STR(row->stacks, buffer_string(&text), row->what);
		importer_deinit(&f.importer);
	}
}

TEST(samples_keep_their_times)
{
	static const struct {
		const char *text, *what;
		uint64_t from_ms, to_ms; // before the end
	} rows[] = {
		{ speedscope, "speedscope", 40, 0 },
		{ chrome, "Chrome trace", 100, 0 },
		{ perf, "perf script", 40, 0 },
		{ austin, "Austin has none", 0, 0 },
	};

	for EACH (row, rows) {
		struct fixture f;

		assert_int_equal(import(&f, row->text, NULL, 0), 0);
		const struct profile *profile = f.importer.profile;
		uint64_t first = UINT64_MAX, last = 0;
		for (uint32_t i = 0; i < profile->sample_count; i++) {
			const struct sample *sample = &profile->samples[i];

			first = sample->slot < first ? sample->slot : first;
			last = sample->slot + sample->more_slots > last
				       ? sample->slot + sample->more_slots
				       : last;
		}
		EXPECT_EQ((AT_NS - row->from_ms * NS_PER_MS) / IMPORT_SLOT_NS, first, row->what);
		assert_true(last <= AT_NS / IMPORT_SLOT_NS && last + 2 >= AT_NS / IMPORT_SLOT_NS);
		importer_deinit(&f.importer);
	}
}

TEST(threads_are_labels)
{
	static const struct {
		const char *text, *thread;
	} rows[] = { { speedscope, "T \"1\"" },
		     { chrome, "main thread" },
		     { perf, "python3 worker" } };

	for EACH (row, rows) {
		struct fixture f;
		bool found = false;

		assert_int_equal(import(&f, row->text, NULL, 0), 0);
		for (uint32_t i = 0; i < f.importer.profile->series_count; i++) {
			const char *thread =
				labels_get(&f.importer.profile->series[i].labels, LABEL_THREAD);

			found |= thread && strcmp(thread, row->thread) == 0;
		}
		EXPECT_EQ(true, found, row->thread);
		importer_deinit(&f.importer);
	}
}

TEST(type_may_be_given)
{
	struct fixture f;

	assert_int_equal(import(&f, speedscope, PROFILE_TYPE_OFF_CPU, 0), 0);
	for (uint32_t i = 0; i < f.importer.profile->series_count; i++)
		EXPECT_STR(PROFILE_TYPE_OFF_CPU,
			   profile_string(f.importer.profile, f.importer.profile->series[i].type),
			   "type");
	importer_deinit(&f.importer);
}

TEST(refuses_in_words)
{
	static const struct {
		const char *text, *words;
		int rc;
	} rows[] = {
		{ "PERFILE2xxxx", "`perf script`", -ENOTSUP },
		{ "FLR\1", "Java Flight Recorder", -ENOTSUP },
		{ "MOJ\1", "mojo2austin", -ENOTSUP },
		{ "\x7f"
		  "ELF",
		  "`cairn upload`", -ENOTSUP },
		{ "hello\n", "not a profile that is read", -ENOTSUP },
		{ "", "an empty file", -ENOTSUP },
		{ "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[{\"unit\":\"none\","
		  "\"type\":\"sampled\","
		  "\"samples\":[[7]],\"weights\":[1]}]}",
		  "frame 7 is not below", -EBADMSG },
		{ "{\"shared\":{\"frames\":[]},\"profiles\":[{\"unit\":\"parsecs\"}]}", "unit",
		  -EBADMSG },
		{ "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[{\"unit\":\"none\","
		  "\"samples\":[[0],[0]],"
		  "\"weights\":[1]}]}",
		  "weights", -EBADMSG },
		{ "[{\"ph\":\"X\",\"name\":\"a\",\"dur\":1}]", "ts", -EBADMSG },
		{ "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":-1}]", "dur", -EBADMSG },
		{ "a 1 1.5: cycles: \n x\n", "line 2: no frame", -EBADMSG },
		{ "a 1 1.5: cycles: \nnonsense\n", "line 2: no event", -EBADMSG },
	};

	for EACH (row, rows) {
		struct fixture f;

		EXPECT_EQ(row->rc, import(&f, row->text, NULL, 0), row->words);
		if (!strstr(f.err.text, row->words))
			fail_msg("%s: \"%s\"", row->words, f.err.text);
		importer_deinit(&f.importer);
	}
}

TEST(survives_every_cut_and_change)
{
	const char *const texts[] = { speedscope, chrome, perf, austin };

	for EACH (text, texts) {
		size_t size = strlen(*text);

		for (size_t i = 0; i < size; i++) {
			_cleanup_free_ char *copy = strdup(*text);
			struct fixture f;

			copy[i] = i % 2 ? '\0' : (char)(copy[i] ^ 5);
			int rc = import(&f, copy, NULL, 0);
			if (rc && !*f.err.text)
				fail_msg("%zu of %.20s: %d without a word", i, *text, rc);
			importer_deinit(&f.importer);
		}
	}
}

RUN_TESTS(cmocka_unit_test(formats_add_up_exactly), cmocka_unit_test(samples_keep_their_times),
	  cmocka_unit_test(threads_are_labels), cmocka_unit_test(type_may_be_given),
	  cmocka_unit_test(refuses_in_words), cmocka_unit_test(survives_every_cut_and_change))
