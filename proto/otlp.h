// SPDX-License-Identifier: Apache-2.0
// Encodes a profile as ExportProfilesServiceRequests of OTLP (opentelemetry-proto 1.10 and 1.11, v1development). The reverse is
// base/import/otlp_import.h.
//
// A resource is what labels say of a process, a Profile one type of it, a Sample a stack and its thread, each slot a timestamp with
// its value. Types without stacks are not profiles: they are left out.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile/profile.h"
#include "proto/export_message.h"

#define OTLP_METHOD "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

struct otlp_encoder;

/** @batch and @profile are borrowed. Equal ones make equal requests. Returns 0 or -ENOMEM. */
int otlp_encoder_new(const struct batch_id *batch, const struct profile *profile,
		     struct otlp_encoder **ret_encoder, struct error *err);
void otlp_encoder_free(struct otlp_encoder *encoder);

/**
 * Make the next request, of @bytes_max and what one sample more needs. *ret_samples: the profile's samples in it; 0: there is no
 * more, and @request is empty. Returns 0 or a negative errno.
 */
int otlp_encoder_next(struct otlp_encoder *encoder, size_t bytes_max, struct buffer *request,
		      uint64_t *ret_samples, struct error *err);

/** What a server answered: of a request that it took, in whole or in part. */
struct otlp_answer {
	int64_t rejected_profiles;
	char message[ERROR_TEXT_BYTES]; // may be empty
};

/** Read an ExportProfilesServiceResponse. Returns 0 or -EBADMSG. */
int otlp_answer_read(const void *bytes, size_t size, struct otlp_answer *ret_answer,
		     struct error *err);
