// SPDX-License-Identifier: Apache-2.0
// Test equipment: a client of the CUDA driver that runs steps like a framework's for ever: a hundred GPU kernels on several streams
// with some CPU work between, a small copy and a wait. The CPU is its bottleneck. Counts steps in the file argv[1].
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/cuda_double.h"

enum {
	STREAMS = 16,
	LAUNCHES = 100,
	WORK = 3000, // turns of a loop: some microseconds
	COUNTER_BYTES = 64,
};

static void *driver;

static void *find(const char *name)
{
	void *function = driver ? dlsym(driver, name) : NULL;

	if (!function) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(1);
	}
	return function;
}

static void check(CUresult result)
{
	if (result)
		abort();
}

__attribute__((noinline)) static void work(void)
{
	for (volatile int i = 0; i < WORK; i++)
		;
}

static volatile uint64_t *open_counter(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *counter = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, COUNTER_BYTES) == 0)
		counter = mmap(NULL, COUNTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return counter == MAP_FAILED ? NULL : counter;
}

int main(int argc, char **argv)
{
	volatile uint64_t *counter = argc > 1 ? open_counter(argv[1]) : NULL;
	CUstream streams[STREAMS];
	CUdeviceptr device;
	CUfunction kernel;
	CUcontext context;
	CUmodule module;
	void *pinned;

	if (!counter)
		return 2;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*init)(unsigned int) = find("cuInit");
	CUresult (*create)(CUcontext *, unsigned int, int) = find("cuCtxCreate_v2");
	CUresult (*load)(CUmodule *, const void *) = find("cuModuleLoadData");
	CUresult (*get)(CUfunction *, CUmodule, const char *) = find("cuModuleGetFunction");
	CUresult (*stream)(CUstream *, unsigned int) = find("cuStreamCreate");
	CUresult (*alloc)(CUdeviceptr *, size_t) = find("cuMemAlloc_v2");
	CUresult (*pin)(void **, size_t, unsigned int) = find("cuMemHostAlloc");
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **) =
		find("cuLaunchKernel");
	CUresult (*copy)(void *, CUdeviceptr, size_t, CUstream) = find("cuMemcpyDtoHAsync_v2");
	CUresult (*wait)(CUstream) = find("cuStreamSynchronize");

	check(init(0));
	check(create(&context, 0, 0));
	check(load(&module, "image"));
	check(get(&kernel, module, "step"));
	check(alloc(&device, 4096));
	check(pin(&pinned, 4096, 0));
	for (int i = 0; i < STREAMS; i++)
		check(stream(&streams[i], CU_STREAM_NON_BLOCKING));
	for (;; ++*counter) {
		for (int i = 0; i < LAUNCHES; i++) {
			work();
			check(launch(kernel, 1, 1, 1, 1, 1, 1, 0, streams[i % STREAMS], NULL,
				     NULL));
		}
		check(copy(pinned, device, 4, streams[0]));
		check(wait(streams[0]));
	}
}
