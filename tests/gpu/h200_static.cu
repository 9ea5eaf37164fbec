// SPDX-License-Identifier: Apache-2.0
// What tests/gpu/h200.sh runs on a real GPU to see launches by a runtime that is linked statically. Prints what
// it launched:
//
//	nvcc -cudart static -o h200_static tests/gpu/h200_static.cu && ./h200_static SECONDS
#include <cstdio>
#include <cstdlib>
#include <ctime>

__global__ void add_one(float *x)
{
	x[threadIdx.x] += 1;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	unsigned long long launches = 0;
	float *x;

	if (cudaMalloc(&x, 32 * sizeof(*x)) != cudaSuccess)
		return 1;
	while (time(NULL) < end) {
		for (int i = 0; i < 100; i++, launches++)
			add_one<<<1, 32>>>(x);
		cudaDeviceSynchronize();
	}
	cudaFree(x);
	printf("{\"launches\": %llu}\n", launches);
	return 0;
}
