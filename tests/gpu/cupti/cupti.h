// SPDX-License-Identifier: Apache-2.0
// Test equipment: replaces NVIDIA's <cupti.h>, which may not be redistributed. Has what the helper uses, with the names, numbers and
// offsets of CUPTI 12.9 (read from a compiler with the real header). `make cupti` checks them against the real one. Never
// installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUPTIAPI

typedef struct CUctx_st *CUcontext;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
typedef uint32_t CUpti_CallbackId;

typedef enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_INVALID_OPERATION = 7,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_INVALID_KIND = 21,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
} CUptiResult;

typedef enum { CUPTI_API_ENTER = 0, CUPTI_API_EXIT = 1 } CUpti_ApiCallbackSite;
typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1 } CUpti_CallbackDomain;
typedef enum {
	CUPTI_ACTIVITY_KIND_KERNEL = 3,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
} CUpti_ActivityKind;

enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };

enum {
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel = 307,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz = 442,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel = 477,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz = 478,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch = 514,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz = 515,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx = 652,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz = 653,
};

typedef struct {
	CUpti_ApiCallbackSite callbackSite;
	const char *functionName;
	const void *functionParams;
	void *functionReturnValue;
	const char *symbolName;
	CUcontext context;
	uint32_t contextUid;
	uint64_t *correlationData;
	uint32_t correlationId;
} CUpti_CallbackData;

typedef struct {
	CUpti_ActivityKind kind;
} CUpti_Activity;

typedef struct {
	CUpti_ActivityKind kind;
	uint8_t not_used[12];
	uint64_t start, end, completed;
	uint32_t deviceId, contextId, streamId;
	uint8_t not_used_either[40];
	uint32_t correlationId;
	int64_t gridId;
	const char *name;
	uint8_t nor_this[96];
} CUpti_ActivityKernel9;

typedef void (*CUpti_CallbackFunc)(void *userdata, CUpti_CallbackDomain domain,
				   CUpti_CallbackId cbid, const void *cbdata);
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size,
						 size_t *maxNumRecords);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, uint32_t streamId,
						  uint8_t *buffer, size_t size, size_t validSize);

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
			   void *userdata);
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber);
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
				CUpti_CallbackDomain domain, CUpti_CallbackId cbid);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t validBufferSizeBytes,
				       CUpti_Activity **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t streamId,
					      size_t *dropped);
