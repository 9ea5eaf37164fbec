// SPDX-License-Identifier: Apache-2.0
#include "base/contract/boosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* As --profiles and --wakers name them; 0: agents have it, but cannot begin with it while they run. */
static const struct {
	const char *word;
	uint32_t profile;
	const char *refusal;
} words[] = {
	{ "wall", BOOST_WALL, NULL },
	{ "memory", BOOST_MEMORY, NULL },
	{ "wakers", BOOST_WAKERS, NULL },
	{ "cpu", 0, "is always collected; --hz raises its rate" },
	{ "gpu", 0, "cannot be added while an agent runs; see --profiles of cairn-agent" },
};

static int parse_word(const char *word, size_t size, uint32_t *profiles, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i].word) != size || strncmp(words[i].word, word, size) != 0)
			continue;
		if (words[i].refusal)
			return error_set(err, -EINVAL, "%s %s", words[i].word, words[i].refusal);
		*profiles |= words[i].profile;
		return 0;
	}
	return error_set(err, -EINVAL, "\"%.*s\" is none of wall, memory and wakers",
			 (int)(size < 40 ? size : 40), word);
}

int boost_profiles_parse(const char *text, uint32_t *ret_profiles, struct error *err)
{
	uint32_t profiles = 0;

	for (const char *word = text;;) {
		size_t size = strcspn(word, ",");
		int rc = parse_word(word, size, &profiles, err);

		if (rc)
			return rc;
		if (!word[size])
			break;
		word += size + 1;
	}
	*ret_profiles = profiles;
	return 0;
}

const char *boost_profiles_text(uint32_t profiles, char text[BOOST_PROFILES_BYTES])
{
	text[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t used = strlen(text);

		if (words[i].profile & profiles)
			snprintf(text + used, BOOST_PROFILES_BYTES - used, "%s%s", used ? "," : "",
				 words[i].word);
	}
	return text;
}

const char *boost_id_text(uint32_t id, char text[BOOST_ID_BYTES])
{
	snprintf(text, BOOST_ID_BYTES, "%08x", id);
	return text;
}

int boost_id_parse(const char *text, uint32_t *ret_id)
{
	if (strlen(text) != BOOST_ID_BYTES - 1 ||
	    strspn(text, "0123456789abcdef") != BOOST_ID_BYTES - 1)
		return -EINVAL;
	*ret_id = (uint32_t)strtoul(text, NULL, 16);
	return *ret_id ? 0 : -EINVAL;
}
