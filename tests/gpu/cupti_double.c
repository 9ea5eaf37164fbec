// SPDX-License-Identifier: Apache-2.0
// Test equipment: a double of libcupti.so.12, without a GPU. The test makes the application's launches. It refuses what the real
// one refuses (a second subscriber, foreign handles) and reports only what was enabled: no launch without its callback, no GPU
// kernel without its activity.
#include "tests/gpu/cupti_double.h"

#include <cupti.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CBIDS = 1024 };

struct CUpti_Subscriber_st {
	CUpti_CallbackFunc callback;
	void *userdata;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_Subscriber_st subscriber;
static bool enabled_calls[CBIDS];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static struct cupti_double_state state;
static uint32_t correlation;
static uint8_t *buffer;
static size_t buffer_bytes, valid_bytes, dropped;

static CUptiResult refuse(CUptiResult result)
{
	state.refused++;
	return result;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *ret_subscriber, CUpti_CallbackFunc callback,
			   void *userdata)
{
	CUptiResult result = CUPTI_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!ret_subscriber)
		result = refuse(CUPTI_ERROR_INVALID_PARAMETER);
	else if (state.is_subscribed)
		result = refuse(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	else {
		subscriber = (struct CUpti_Subscriber_st){ callback, userdata };
		memset(enabled_calls, 0, sizeof(enabled_calls));
		state.callbacks_enabled = 0;
		state.is_subscribed = true;
		state.subscribed++;
		*ret_subscriber = &subscriber;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	CUptiResult result = CUPTI_SUCCESS;

	pthread_mutex_lock(&lock);
	if (handle != &subscriber || !state.is_subscribed)
		result = refuse(CUPTI_ERROR_INVALID_PARAMETER);
	else
		state.is_subscribed = false;
	pthread_mutex_unlock(&lock);
	return result;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
				CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	CUptiResult result = CUPTI_SUCCESS;

	pthread_mutex_lock(&lock);
	if (handle != &subscriber || !state.is_subscribed || cbid >= CBIDS ||
	    domain != CUPTI_CB_DOMAIN_DRIVER_API) {
		result = refuse(CUPTI_ERROR_INVALID_PARAMETER);
	} else if (enabled_calls[cbid] != (enable != 0)) {
		enabled_calls[cbid] = enable != 0;
		state.callbacks_enabled += enable ? 1 : -1U;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request_fn,
					   CUpti_BuffersCallbackCompleteFunc complete_fn)
{
	if (!request_fn || !complete_fn)
		return refuse(CUPTI_ERROR_INVALID_PARAMETER);
	request = request_fn;
	complete = complete_fn;
	return CUPTI_SUCCESS;
}

/* From the environment: how long it takes to instrument loaded code. */
static void instrument(void)
{
	const char *ms = getenv("CUPTI_DOUBLE_ENABLE_MS");

	if (ms)
		usleep((useconds_t)atoi(ms) * 1000);
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	if (kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		return refuse(CUPTI_ERROR_INVALID_KIND);
	instrument();
	state.is_enabled = true;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	if (kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		return refuse(CUPTI_ERROR_INVALID_KIND);
	state.is_enabled = false;
	return CUPTI_SUCCESS;
}

// As the real one returns a buffer when it is full or flushed.
static void return_buffer(void)
{
	uint8_t *full = buffer;

	if (!full)
		return;
	buffer = NULL;
	state.buffers--;
	complete(NULL, 0, full, buffer_bytes, valid_bytes);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	pthread_mutex_lock(&lock);
	return_buffer();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *records, size_t valid, CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + sizeof(CUpti_ActivityKernel9) : records;

	if (next + sizeof(CUpti_ActivityKernel9) > records + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)next;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
					      size_t *ret_dropped)
{
	(void)context;
	(void)stream;
	*ret_dropped = dropped;
	dropped = 0;
	return CUPTI_SUCCESS;
}

// ---- the application ------------------------------------------------------------------------

static void put_record(const char *name, uint64_t duration_ns)
{
	CUpti_ActivityKernel9 *record;
	size_t records_max;

	if (buffer && valid_bytes + sizeof(*record) > buffer_bytes)
		return_buffer();
	if (!buffer) {
		request(&buffer, &buffer_bytes, &records_max);
		valid_bytes = 0;
		if (!buffer) {
			dropped++;
			return;
		}
		state.buffers++;
	}
	record = (CUpti_ActivityKernel9 *)(void *)(buffer + valid_bytes);
	memset(record, 0, sizeof(*record));
	record->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	record->start = 1000;
	record->end = 1000 + duration_ns;
	record->streamId = 7;
	record->correlationId = correlation;
	record->name = name;
	valid_bytes += sizeof(*record);
	state.records++;
}

uint32_t cupti_double_launch(uint32_t cbid, const char *name, uint32_t kernels,
			     uint64_t duration_ns);
uint32_t cupti_double_launch(uint32_t cbid, const char *name, uint32_t kernels,
			     uint64_t duration_ns)
{
	pthread_mutex_lock(&lock);
	uint32_t number = ++correlation;
	bool is_reported = state.is_subscribed && enabled_calls[cbid];
	CUpti_CallbackData call = { .callbackSite = CUPTI_API_ENTER,
				    .symbolName = name,
				    .correlationId = number };

	for (int site = CUPTI_API_ENTER; is_reported && site <= CUPTI_API_EXIT; site++) {
		call.callbackSite = (CUpti_ApiCallbackSite)site;
		subscriber.callback(subscriber.userdata, CUPTI_CB_DOMAIN_DRIVER_API, cbid, &call);
		state.callbacks++;
	}
	for (uint32_t i = 0; state.is_enabled && request && i < kernels; i++)
		put_record(name, duration_ns);
	pthread_mutex_unlock(&lock);
	return number;
}

struct cupti_double_state cupti_double_state(void);
struct cupti_double_state cupti_double_state(void)
{
	pthread_mutex_lock(&lock);
	struct cupti_double_state now = state;
	pthread_mutex_unlock(&lock);
	return now;
}
