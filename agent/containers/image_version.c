// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/image_version.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

/* What follows "sha256:"; NULL: there is no digest. An image without a name is all digest. */
static const char *digest_of(const char *image, const char **ret_end_of_name)
{
	static const char mark[] = "@sha256:";
	const char *digest = strstr(image, mark);

	*ret_end_of_name = digest ? digest : image + strlen(image);
	if (digest)
		return digest + strlen(mark);
	if (!text_begins_with(image, mark + 1))
		return NULL;
	*ret_end_of_name = image;
	return image + strlen(mark + 1);
}

void image_version(const char *image, char ret_version[IMAGE_VERSION_BYTES])
{
	const char *end, *digest = digest_of(image, &end);
	const char *tag = memrchr(image, ':', (size_t)(end - image));

	ret_version[0] = '\0';
	if (tag && !memchr(tag, '/', (size_t)(end - tag)))
		snprintf(ret_version, IMAGE_VERSION_BYTES, "%.*s", (int)(end - tag - 1), tag + 1);
	else if (digest)
		snprintf(ret_version, IMAGE_VERSION_BYTES, "sha256:%.12s", digest);
	utf8_clean(ret_version);
}
