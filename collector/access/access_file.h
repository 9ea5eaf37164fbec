// SPDX-License-Identifier: Apache-2.0
// The access file: one credential per line, "NAME ROLES TENANT CREDENTIAL".
//
//     fleet-a       ingest       shop  sha256:SALT:HASH    a token
//     *.node.shop   ingest       shop  certificate         client certificates of these names
//     ann@shop.com  read,upload  shop  person              named by a trusted proxy
//     ops           read,admin   *     sha256:SALT:HASH    all tenants
//     ci            ingest       -     sha256:SALT:HASH    series without a tenant
//
// A token is "cairn_NAME.SECRET". The secret has 256 random bits, so one salted SHA-256 keeps it: there
// is nothing to guess. A name may stand twice, with the old and the new token: so it is rotated.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/access/identity.h"

enum {
	ACCESS_SALT_BYTES = 16,
	ACCESS_HASH_BYTES = 32,
	ACCESS_SECRET_BYTES = 43, // 256 bits in base64url
	ACCESS_TOKEN_BYTES = 6 + ACCESS_NAME_BYTES + 1 + ACCESS_SECRET_BYTES + 1,
	ACCESS_LINE_BYTES = 1024,
};

enum access_kind { ACCESS_TOKEN, ACCESS_CERTIFICATE, ACCESS_PERSON };

struct access_entry {
	enum access_kind kind;
	char *name; // "*SUFFIX" of certificates and persons: all names with this end
	char tenant[ACCESS_TENANT_BYTES];
	unsigned int roles;
	uint8_t salt[ACCESS_SALT_BYTES];
	uint8_t hash[ACCESS_HASH_BYTES];
};

struct access_file {
	struct access_entry *entries;
	uint32_t count, capacity;
};

void access_file_deinit(struct access_file *file);

/** Read @path. Returns 0; -EINVAL with the line in @err; -errno. @ret_file is untouched on failure. */
int access_file_read(const char *path, struct access_file *ret_file, struct error *err);

/** A tenant as people write it: "-" is none (""), "*" all of them. Returns 0; -EINVAL with @err. */
int access_tenant_parse(const char *text, char ret_tenant[ACCESS_TENANT_BYTES], struct error *err);

/** The line of this token, or NULL. Compares in constant time. */
const struct access_entry *access_file_find_token(const struct access_file *file,
						  const char *token);
/** The line of this certificate or person: the exact name first, then the longest "*SUFFIX". */
const struct access_entry *access_file_find_name(const struct access_file *file,
						 enum access_kind kind, const char *name);

/**
 * Make a token with a random secret, and its line of the file. @roles and @tenant as the file has them.
 * Returns 0; -EINVAL with @err; -EIO (no random bytes).
 */
int access_token_new(const char *name, const char *roles, const char *tenant,
		     char ret_token[ACCESS_TOKEN_BYTES], char ret_line[ACCESS_LINE_BYTES],
		     struct error *err);
