// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of credentials, and as what a client shows: refused with a word that shows no secret, or
// lines within their limits, of which an unknown token finds none.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/access/access_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

#define SALT "000102030405060708090a0b0c0d0e0f"

static const char good[] = "fleet ingest shop sha256:" SALT ":" SALT SALT "\n"
			   "*.node.a ingest,upload shop certificate\nann@a read,admin * person\n"
			   "ci read - sha256:" SALT ":" SALT SALT "\n";

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_entry(const struct access_entry *entry)
{
	check(entry->name && *entry->name && strlen(entry->name) < ACCESS_NAME_BYTES);
	check(memchr(entry->tenant, '\0', sizeof(entry->tenant)) && entry->tenant[0] != '.' &&
	      !strchr(entry->tenant, '/'));
	check(entry->roles);
	check(strcmp(entry->tenant, "*") || !(entry->roles & (ACCESS_INGEST | ACCESS_UPLOAD)));
	check(entry->kind != ACCESS_TOKEN || entry->name[0] != '*');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct access_file file = { 0 };
	struct error err = { 0 };
	char path[64], text[1024];
	int fd = memfd_create("access", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fchmod(fd, 0600);
	int rc = access_file_read(path, &file, &err);
	check(rc || file.count <= ACCESS_ENTRIES_MAX);
	check(!rc || (err.code && memchr(err.text, '\0', sizeof(err.text))));
	for (uint32_t i = 0; i < file.count; i++)
		check_entry(&file.entries[i]);

	// What a client shows: of whose token the hash is not there, gets no line.
	snprintf(text, sizeof(text), "%.*s", (int)(size < sizeof(text) ? size : sizeof(text) - 1),
		 (const char *)bytes);
	check(!access_file_find_token(&file, text));
	access_file_find_name(&file, ACCESS_CERTIFICATE, text);
	access_file_find_name(&file, ACCESS_PERSON, text);
	if (file.count && file.entries[0].kind != ACCESS_TOKEN) {
		snprintf(text, sizeof(text), "x%s",
			 file.entries[0].name + (file.entries[0].name[0] == '*'));
		access_file_find_name(&file, file.entries[0].kind, text);
	}
	access_file_deinit(&file);
	close(fd);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	(void)seed;
	if (size < 8 && sizeof(good) - 1 <= size_max) {
		size = sizeof(good) - 1;
		memcpy(bytes, good, size);
	}
	return LLVMFuzzerMutate(bytes, size, size_max);
}
