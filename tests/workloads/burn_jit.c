// SPDX-License-Identifier: Apache-2.0
// Burns CPU in JIT code that it lists in /tmp/perf-PID.map, as JIT compilers
// do: jit_alpha half of the time, jit_beta, which only calls jit_beta_callee, the other half,
// in rounds of random order and length. What each really used is printed at the end. "--dump 1"
// lists them in a jitdump file of the current folder instead.
//
//   burn_jit [--seconds S] [--seed X] [--round-ms M] [--dump 1]

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/workloads/truth.h"

enum { CODE_BYTES = 4096, ALPHA = 0, CALLEE = 256, BETA = 512, STEP_LOOPS = 1000000 };

typedef void (*generated)(uint64_t loops);

/* Counts its argument down to zero, with a frame. */
#if defined(__x86_64__)
static const uint8_t counting[] = {
	0x55,             // push %rbp
	0x48, 0x89, 0xe5, // mov %rsp,%rbp
	0x48, 0xff, 0xcf, // dec %rdi
	0x75, 0xfb,       // jnz to the line before
	0x5d,             // pop %rbp
	0xc3,             // ret
};
/* Calls what lies 256 bytes before it, with a frame. */
static const uint8_t calling[] = {
	0x55,                         // push %rbp
	0x48, 0x89, 0xe5,             // mov %rsp,%rbp
	0xe8, 0xf7, 0xfe, 0xff, 0xff, // call: 256 + 9 bytes back
	0x5d,                         // pop %rbp
	0xc3,                         // ret
};
#elif defined(__aarch64__)
static const uint32_t counting[] = {
	0xa9bf7bfd, // stp x29, x30, [sp, #-16]!
	0x910003fd, // mov x29, sp
	0xf1000400, // subs x0, x0, #1
	0x54ffffe1, // b.ne to the line before
	0xa8c17bfd, // ldp x29, x30, [sp], #16
	0xd65f03c0, // ret
};
static const uint32_t calling[] = {
	0xa9bf7bfd, // stp x29, x30, [sp, #-16]!
	0x910003fd, // mov x29, sp
	0x97ffffbe, // bl: 256 + 8 bytes back
	0xa8c17bfd, // ldp x29, x30, [sp], #16
	0xd65f03c0, // ret
};
#endif

struct function {
	const char *name;
	uint32_t offset; // in the generated code
	const void *code;
	size_t size;
};

static const struct function functions[] = {
	{ "jit_alpha", ALPHA, counting, sizeof(counting) },
	{ "jit_beta_callee", CALLEE, counting, sizeof(counting) },
	{ "jit_beta", BETA, calling, sizeof(calling) },
};

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

uint64_t run_generated(const uint8_t *code, uint64_t ns);
void run_rounds(const uint8_t *code, uint64_t end_ns, uint64_t round_ns,
		struct random_source *random, struct truth *truths);

static uint8_t *generate(void)
{
	uint8_t *code =
		mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		exit(1);
	for (int i = 0; i < FUNCTIONS; i++)
		memcpy(code + functions[i].offset, functions[i].code, functions[i].size);
	if (mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC))
		exit(1);
	__builtin___clear_cache((char *)code, (char *)code + CODE_BYTES);
	return code;
}

static void write_perf_map(const uint8_t *code)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *file = fopen(path, "w");
	if (!file)
		exit(1);
	for (int i = 0; i < FUNCTIONS; i++)
		fprintf(file, "%lx %zx %s\n", (unsigned long)(code + functions[i].offset),
			functions[i].size, functions[i].name);
	fclose(file);
}

static void put_u64(FILE *file, uint64_t number)
{
	fwrite(&number, sizeof(number), 1, file);
}

static void put_u32(FILE *file, uint32_t number)
{
	fwrite(&number, sizeof(number), 1, file);
}

/* Linux: tools/perf/Documentation/jitdump-specification.txt */
static void write_load(FILE *file, const uint8_t *code, const struct function *function, int index)
{
	size_t name_size = strlen(function->name) + 1;

	put_u32(file, 0); // JIT_CODE_LOAD
	put_u32(file, (uint32_t)(56 + name_size + function->size));
	put_u64(file, clock_ns(CLOCK_MONOTONIC));
	put_u32(file, (uint32_t)getpid());
	put_u32(file, (uint32_t)getpid());
	put_u64(file, (uintptr_t)code + function->offset);
	put_u64(file, (uintptr_t)code + function->offset);
	put_u64(file, function->size);
	put_u64(file, (uint64_t)index);
	fwrite(function->name, name_size, 1, file);
	fwrite(function->code, function->size, 1, file);
}

static void write_jitdump(const uint8_t *code)
{
	char path[64];

	snprintf(path, sizeof(path), "jit-%d.dump", getpid());
	FILE *file = fopen(path, "w+");
	if (!file)
		exit(1);
	put_u32(file, 0x4a695444);
	put_u32(file, 1);  // version
	put_u32(file, 40); // size of this header
	put_u32(file, 0);  // machine
	put_u64(file, (uint64_t)getpid() << 32);
	put_u64(file, clock_ns(CLOCK_MONOTONIC));
	put_u64(file, 0);
	for (int i = 0; i < FUNCTIONS; i++)
		write_load(file, code, &functions[i], i);
	fflush(file);
	// By this mapping profilers learn of the file, which stays open.
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
		exit(1);
}

NOINLINE uint64_t run_generated(const uint8_t *code, uint64_t ns)
{
	uint64_t begin = thread_cpu_ns(), now = begin;

	while (now - begin < ns) {
		((generated)(uintptr_t)code)(STEP_LOOPS);
		now = thread_cpu_ns();
	}
	return now - begin;
}

NOINLINE void run_rounds(const uint8_t *code, uint64_t end_ns, uint64_t round_ns,
			 struct random_source *random, struct truth *truths)
{
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		uint64_t ns = random_between(random, round_ns / 4, round_ns * 7 / 4);

		if (random_unit(random) < 0.5)
			truths[0].cpu_ns += run_generated(code + ALPHA, ns);
		else
			truths[1].cpu_ns += run_generated(code + BETA, ns);
	}
}

int main(int argc, char **argv)
{
	struct truth truths[] = { { "jit_alpha", 0 }, { "jit_beta", 0 }, { "jit_beta_callee", 0 } };
	struct random_source random = random_seeded(argc, argv);
	double seconds = option_number(argc, argv, "--seconds", 5);
	double round_ms = option_number(argc, argv, "--round-ms", 40);
	uint8_t *code = generate();

	if (option_number(argc, argv, "--dump", 0))
		write_jitdump(code);
	else
		write_perf_map(code);
	run_rounds(code, clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9),
		   (uint64_t)(round_ms * 1e6), &random, truths);
	truths[2].cpu_ns = truths[1].cpu_ns;
	print_truth(truths, sizeof(truths) / sizeof(truths[0]));
	return 0;
}
