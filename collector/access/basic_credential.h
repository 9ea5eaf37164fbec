// SPDX-License-Identifier: Apache-2.0
// "Authorization: Basic", as Pyroscope's SDKs send it: the tenant as the user, the token as the password.
#pragma once

#include "collector/access/access_file.h"
#include "collector/access/identity.h"

/** @encoded: what follows "Basic ". Returns 0, or -EINVAL: not base64 of "TENANT:TOKEN". */
int basic_credential_read(const char *encoded, char ret_tenant[ACCESS_TENANT_BYTES],
			  char ret_token[ACCESS_TOKEN_BYTES]);
