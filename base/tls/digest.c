// SPDX-License-Identifier: Apache-2.0
#include "base/tls/digest.h"

#include <errno.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

enum { READ_BYTES = 64 << 10 };

int digest_of_file(int fd, uint64_t bytes, uint8_t ret_digest[DIGEST_BYTES])
{
	uint8_t part[READ_BYTES];
	gnutls_hash_hd_t hash;
	int rc = 0;

	if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256))
		return -ENOMEM;
	for (uint64_t at = 0; at < bytes && rc == 0;) {
		size_t wanted = bytes - at < sizeof(part) ? (size_t)(bytes - at) : sizeof(part);
		ssize_t count = pread(fd, part, wanted, (off_t)at);

		if (count <= 0 || gnutls_hash(hash, part, (size_t)count))
			rc = count < 0 ? -errno : -EIO;
		else
			at += (uint64_t)count;
	}
	gnutls_hash_deinit(hash, ret_digest);
	return rc;
}
