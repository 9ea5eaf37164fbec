// SPDX-License-Identifier: Apache-2.0
// Offsets of fields in CUPTI's structures, from the headers of 12.9. The stand-in headers of the tests (tests/gpu/cupti)
// and headers of other versions must agree, or the helper would misread records.
#pragma once

#include <cupti.h>
#include <stddef.h>

#define CUPTI_FIELD(type, field, offset) \
	_Static_assert(offsetof(type, field) == (offset), #type "." #field)

CUPTI_FIELD(CUpti_CallbackData, symbolName, 32);
CUPTI_FIELD(CUpti_CallbackData, correlationId, 64);
CUPTI_FIELD(CUpti_ActivityKernel9, start, 16);
CUPTI_FIELD(CUpti_ActivityKernel9, end, 24);
CUPTI_FIELD(CUpti_ActivityKernel9, deviceId, 40);
CUPTI_FIELD(CUpti_ActivityKernel9, streamId, 48);
CUPTI_FIELD(CUpti_ActivityKernel9, correlationId, 92);
CUPTI_FIELD(CUpti_ActivityKernel9, name, 104);
_Static_assert(sizeof(CUpti_ActivityKernel9) == 208, "CUpti_ActivityKernel9");
_Static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel == 307 &&
		       CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz == 442 &&
		       CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx == 652 &&
		       CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz == 653 &&
		       CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel == 477 &&
		       CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz == 478 &&
		       CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch == 514 &&
		       CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz == 515,
	       "numbers of calls");
_Static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == 39 &&
		       CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == 10 && CUPTI_API_ENTER == 0 &&
		       CUPTI_CB_DOMAIN_DRIVER_API == 1,
	       "numbers");
