// SPDX-License-Identifier: Apache-2.0
// Test equipment: a client of the CUDA driver that busy-waits two seconds for the device for each second of its own work, for
// argv[1] seconds of CPU time. Prints both as JSON. Finds the driver as cudart does: dlopen(), cuGetProcAddress().
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/gpu/cuda_double.h"

#define CUDA_VERSION 12020

enum { ROUND_MS = 30 };

static CUresult (*get_address)(const char *, void **, int, uint64_t, int *);

static void *find(const char *name)
{
	void *address = NULL;

	if (get_address(name, &address, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) ||
	    !address) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(1);
	}
	return address;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) void prepare_batch(void)
{
	uint64_t until = cpu_ns() + ROUND_MS * 1000000ULL / 3;

	while (cpu_ns() < until)
		;
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	uint64_t end = cpu_ns() + (uint64_t)(seconds * 1e9), work_ns = 0, wait_ns = 0;
	CUfunction function;
	CUcontext context;
	CUmodule module;

	*(void **)&get_address = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
	if (!get_address) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CUresult (*init)(unsigned int) = find("cuInit");
	CUresult (*create)(CUcontext *, unsigned int, int) = find("cuCtxCreate");
	CUresult (*load)(CUmodule *, const void *) = find("cuModuleLoadData");
	CUresult (*function_of)(CUfunction *, CUmodule, const char *) = find("cuModuleGetFunction");
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **) =
		find("cuLaunchKernel");
	CUresult (*synchronize)(CUstream) = find("cuStreamSynchronize");

	if (init(0) || create(&context, 0, 0) || load(&module, "image") ||
	    function_of(&function, module, "decode"))
		return 1;
	while (cpu_ns() < end) {
		unsigned int blocks = ROUND_MS * 1000000ULL * 2 / 3 / DOUBLE_KERNEL_NS;
		uint64_t begin = cpu_ns(), prepared;

		prepare_batch();
		prepared = cpu_ns();
		if (launch(function, blocks, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) ||
		    synchronize(NULL))
			return 1;
		work_ns += prepared - begin;
		wait_ns += cpu_ns() - prepared;
	}
	printf("{\"work_ns\": %llu, \"wait_ns\": %llu}\n", (unsigned long long)work_ns,
	       (unsigned long long)wait_ns);
	return 0;
}
