// SPDX-License-Identifier: Apache-2.0
#include "collector/access/basic_credential.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>

enum { BASIC_BYTES_MAX = ACCESS_TENANT_BYTES + ACCESS_TOKEN_BYTES, ENCODED_BYTES_MAX = 512 };

int basic_credential_read(const char *encoded, char ret_tenant[ACCESS_TENANT_BYTES],
			  char ret_token[ACCESS_TOKEN_BYTES])
{
	const gnutls_datum_t text = { (unsigned char *)encoded,
				      (unsigned int)strnlen(encoded, ENCODED_BYTES_MAX) };
	char plain[BASIC_BYTES_MAX + 1] = "";
	gnutls_datum_t decoded = { 0 };
	int rc = -EINVAL;

	if (text.size == ENCODED_BYTES_MAX || gnutls_base64_decode2(&text, &decoded))
		return -EINVAL;
	if (decoded.size <= BASIC_BYTES_MAX)
		memcpy(plain, decoded.data, decoded.size);
	const char *colon = strchr(plain, ':');
	if (colon && strlen(plain) == decoded.size && colon - plain < ACCESS_TENANT_BYTES &&
	    strlen(colon + 1) < ACCESS_TOKEN_BYTES) {
		snprintf(ret_tenant, ACCESS_TENANT_BYTES, "%.*s", (int)(colon - plain), plain);
		snprintf(ret_token, ACCESS_TOKEN_BYTES, "%s", colon + 1);
		rc = 0;
	}
	gnutls_memset(decoded.data, 0, decoded.size);
	gnutls_free(decoded.data);
	gnutls_memset(plain, 0, sizeof(plain));
	return rc;
}
