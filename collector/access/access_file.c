// SPDX-License-Identifier: Apache-2.0
#include "collector/access/access_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/cleanup.h"

#define TOKEN_PREFIX "cairn_"
#define HASH_PREFIX  "sha256:"

static const char letters[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"; // base64url

static const struct {
	const char *word;
	enum access_role role;
} roles_by_word[] = {
	{ "ingest", ACCESS_INGEST },
	{ "read", ACCESS_READ },
	{ "upload", ACCESS_UPLOAD },
	{ "admin", ACCESS_ADMIN },
};

void access_file_deinit(struct access_file *file)
{
	for (uint32_t i = 0; i < file->count; i++)
		free(file->entries[i].name);
	free(file->entries);
	*file = (struct access_file){ 0 };
}

static void hash_secret(const uint8_t salt[ACCESS_SALT_BYTES], const char *secret,
			uint8_t ret_hash[ACCESS_HASH_BYTES])
{
	uint8_t bytes[ACCESS_SALT_BYTES + ACCESS_SECRET_BYTES];

	memcpy(bytes, salt, ACCESS_SALT_BYTES);
	memcpy(bytes + ACCESS_SALT_BYTES, secret, ACCESS_SECRET_BYTES);
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, sizeof(bytes), ret_hash))
		abort(); // SHA-256 is always there; a hash of nothing would let everybody in
	explicit_bzero(bytes, sizeof(bytes));
}

// ---- the words of a line --------------------------------------------------------------------

static int parse_roles(const char *text, unsigned int *ret_roles, struct error *err)
{
	unsigned int roles = 0;

	for (const char *word = text; word; word = strchr(word, ',')) {
		unsigned int role = 0;

		word += *word == ',';
		size_t size = strcspn(word, ",");
		for (size_t i = 0; i < ARRAY_SIZE(roles_by_word); i++)
			if (strlen(roles_by_word[i].word) == size &&
			    strncmp(roles_by_word[i].word, word, size) == 0)
				role = roles_by_word[i].role;
		if (!role)
			return error_set(
				err, -EINVAL,
				"\"%.40s\" is not a list of ingest, read, upload and admin", text);
		roles |= role;
	}
	*ret_roles = roles;
	return 0;
}

int access_tenant_parse(const char *text, char ret_tenant[ACCESS_TENANT_BYTES], struct error *err)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
	bool all = strcmp(text, ACCESS_ALL_TENANTS) == 0;

	if (strcmp(text, "-") == 0) {
		ret_tenant[0] = '\0';
		return 0;
	}
	// A folder's name, too: no "..", nothing hidden.
	if (!all && (!*text || *text == '.' || strlen(text) >= ACCESS_TENANT_BYTES ||
		     text[strspn(text, allowed)]))
		return error_set(
			err, -EINVAL,
			"\"%.70s\" is not a tenant: up to %d letters, digits, '-', '_' and "
			"'.', or - (none), or * (all)",
			text, ACCESS_TENANT_BYTES - 1);
	snprintf(ret_tenant, ACCESS_TENANT_BYTES, "%s", text);
	return 0;
}

static int parse_tenant(const char *text, unsigned int roles, char ret_tenant[ACCESS_TENANT_BYTES],
			struct error *err)
{
	if (strcmp(text, ACCESS_ALL_TENANTS) == 0 && roles & (ACCESS_INGEST | ACCESS_UPLOAD))
		return error_set(err, -EINVAL,
				 "ingest and upload write to one tenant: * is only for read and "
				 "admin");
	return access_tenant_parse(text, ret_tenant, err);
}

static int parse_name(const char *text, enum access_kind kind, struct error *err)
{
	const char *star = strchr(text, '*');
	bool pattern =
		star && star == text && text[1] && !strchr(text + 1, '*') && kind != ACCESS_TOKEN;

	if (strlen(text) >= ACCESS_NAME_BYTES)
		return error_set(err, -EINVAL, "the name is longer than %d bytes",
				 ACCESS_NAME_BYTES - 1);
	for (const char *at = text; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == '"' || *at == '\\')
			return error_set(err, -EINVAL,
					 "\"%.40s\" is not a name: printable ASCII, no blanks or "
					 "quotes",
					 text);
	if (star && !pattern)
		return error_set(err, -EINVAL,
				 "\"%.40s\": only names of certificates and persons may begin with "
				 "'*', and an end must follow",
				 text);
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(const char **at, uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, *at += 2) {
		int high = hex_digit((*at)[0]), low = high < 0 ? -1 : hex_digit((*at)[1]);

		if (low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int parse_credential(const char *text, struct access_entry *entry, struct error *err)
{
	const char *at = text + strlen(HASH_PREFIX);

	if (strcmp(text, "certificate") == 0) {
		entry->kind = ACCESS_CERTIFICATE;
		return 0;
	}
	if (strcmp(text, "person") == 0) {
		entry->kind = ACCESS_PERSON;
		return 0;
	}
	entry->kind = ACCESS_TOKEN;
	// The word is not shown: somebody may have put a secret here.
	if (strncmp(text, HASH_PREFIX, strlen(HASH_PREFIX)) != 0 ||
	    !parse_hex(&at, entry->salt, ACCESS_SALT_BYTES) || *at++ != ':' ||
	    !parse_hex(&at, entry->hash, ACCESS_HASH_BYTES) || *at)
		return error_set(err, -EINVAL,
				 "the credential is none of certificate, person and "
				 "sha256:SALT:HASH, as cairn-collector --new-token prints it");
	return 0;
}

static int parse_words(char *words[4], struct access_entry *entry, struct error *err)
{
	int rc = parse_credential(words[3], entry, err);
	if (!rc)
		rc = parse_name(words[0], entry->kind, err);
	if (!rc)
		rc = parse_roles(words[1], &entry->roles, err);
	if (!rc)
		rc = parse_tenant(words[2], entry->roles, entry->tenant, err);
	if (rc)
		return rc;
	entry->name = strdup(words[0]);
	return entry->name ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/** Returns the number of words, at most 5. */
static int split(char *line, char *words[5])
{
	static const char blanks[] = " \t\r\n";
	int count = 0;
	char *rest;

	for (char *word = strtok_r(line, blanks, &rest); word && count < 5;
	     word = strtok_r(NULL, blanks, &rest)) {
		if (*word == '#')
			break;
		words[count++] = word;
	}
	return count;
}

static int add_line(struct access_file *file, char *line, struct error *err)
{
	struct access_entry entry = { 0 };
	char *words[5];
	int count = split(line, words);

	if (!count)
		return 0;
	if (count != 4)
		return error_set(err, -EINVAL, "expected NAME ROLES TENANT CREDENTIAL");
	if (file->count == ACCESS_ENTRIES_MAX)
		return error_set(err, -EINVAL, "more than %d lines; use a pattern (*.example)",
				 ACCESS_ENTRIES_MAX);
	if (file->count == file->capacity) {
		uint32_t capacity = file->capacity ? 2 * file->capacity : 16;
		void *entries = reallocarray(file->entries, capacity, sizeof(*file->entries));

		if (!entries)
			return error_set(err, -ENOMEM, "out of memory");
		file->entries = entries;
		file->capacity = capacity;
	}
	int rc = parse_words(words, &entry, err);
	if (!rc)
		file->entries[file->count++] = entry;
	return rc;
}

int access_file_read(const char *path, struct access_file *ret_file, struct error *err)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	_cleanup_(access_file_deinit) struct access_file file = { 0 };
	char line[ACCESS_LINE_BYTES];
	struct error cause = { 0 };
	int rc = 0;

	if (!stream)
		return error_errno(err, -errno, "access file %s", path);
	for (unsigned int number = 1; fgets(line, sizeof(line), stream); number++) {
		if (!strchr(line, '\n') && !feof(stream))
			rc = error_set(&cause, -EINVAL, "longer than %d bytes",
				       ACCESS_LINE_BYTES - 2);
		else
			rc = add_line(&file, line, &cause);
		if (rc)
			return error_set(err, rc, "access file %s: line %u: %s", path, number,
					 cause.text);
	}
	if (ferror(stream))
		return error_errno(err, -EIO, "access file %s", path);
	*ret_file = file;
	file = (struct access_file){ 0 };
	return 0;
}

// ---- looking up -------------------------------------------------------------------------------

const struct access_entry *access_file_find_token(const struct access_file *file, const char *token)
{
	const struct access_entry *found = NULL;
	const char *dot = strrchr(token, '.');

	if (strncmp(token, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) != 0 || !dot ||
	    strlen(dot + 1) != ACCESS_SECRET_BYTES)
		return NULL;
	const char *name = token + strlen(TOKEN_PREFIX);
	size_t size = (size_t)(dot - name);

	for (uint32_t i = 0; i < file->count; i++) {
		const struct access_entry *entry = &file->entries[i];
		uint8_t hash[ACCESS_HASH_BYTES];

		// Names are no secret.
		if (entry->kind != ACCESS_TOKEN || strlen(entry->name) != size ||
		    memcmp(entry->name, name, size) != 0)
			continue;
		hash_secret(entry->salt, dot + 1, hash);
		if (gnutls_memcmp(hash, entry->hash, sizeof(hash)) == 0)
			found = entry;
	}
	return found;
}

const struct access_entry *access_file_find_name(const struct access_file *file,
						 enum access_kind kind, const char *name)
{
	const struct access_entry *found = NULL;
	size_t size = strlen(name), longest = 0;

	for (uint32_t i = 0; i < file->count; i++) {
		const struct access_entry *entry = &file->entries[i];
		size_t suffix = strlen(entry->name) - 1;

		if (entry->kind != kind)
			continue;
		if (strcmp(entry->name, name) == 0)
			return entry;
		if (entry->name[0] == '*' && suffix < size && suffix > longest &&
		    strcmp(name + size - suffix, entry->name + 1) == 0) {
			longest = suffix;
			found = entry;
		}
	}
	return found;
}

// ---- new tokens -------------------------------------------------------------------------------

static void append_hex(char **at, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		*at += sprintf(*at, "%02x", bytes[i]);
}

static int random_secret(char ret_secret[ACCESS_SECRET_BYTES + 1])
{
	uint8_t bytes[ACCESS_SECRET_BYTES];

	// 6 of each byte's 8 bits: uniform, as 64 divides 256.
	if (gnutls_rnd(GNUTLS_RND_KEY, bytes, sizeof(bytes)))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		ret_secret[i] = letters[bytes[i] & 63];
	ret_secret[ACCESS_SECRET_BYTES] = '\0';
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

int access_token_new(const char *name, const char *roles, const char *tenant,
		     char ret_token[ACCESS_TOKEN_BYTES], char ret_line[ACCESS_LINE_BYTES],
		     struct error *err)
{
	struct access_entry entry = { .kind = ACCESS_TOKEN };
	char secret[ACCESS_SECRET_BYTES + 1];

	int rc = *name ? parse_name(name, ACCESS_TOKEN, err)
		       : error_set(err, -EINVAL, "the token needs a name");
	if (!rc)
		rc = parse_roles(roles, &entry.roles, err);
	if (!rc)
		rc = parse_tenant(tenant, entry.roles, entry.tenant, err);
	if (rc)
		return rc;
	if (random_secret(secret) || gnutls_rnd(GNUTLS_RND_RANDOM, entry.salt, sizeof(entry.salt)))
		return error_set(err, -EIO, "no random bytes for a token");
	hash_secret(entry.salt, secret, entry.hash);

	snprintf(ret_token, ACCESS_TOKEN_BYTES, TOKEN_PREFIX "%s.%s", name, secret);
	char *at = ret_line;
	at += snprintf(ret_line, ACCESS_LINE_BYTES / 2, "%s %s %s " HASH_PREFIX, name, roles,
		       tenant);
	append_hex(&at, entry.salt, sizeof(entry.salt));
	*at++ = ':';
	append_hex(&at, entry.hash, sizeof(entry.hash));
	*at = '\0';
	explicit_bzero(secret, sizeof(secret));
	return 0;
}
