// SPDX-License-Identifier: Apache-2.0
// A call's answer as HTTP/2: the response and status 0, or a status and its text. Only proto/rpc_*.c include this.
#pragma once

#include <nghttp2/nghttp2.h>

#include "proto/rpc_call.h"

/** Let @session send the outcome of @call, which must stay until its stream ends. 0, or an error of nghttp2. */
int rpc_answer_submit(nghttp2_session *session, struct rpc_call *call);
