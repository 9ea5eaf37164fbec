// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jit_name.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

/* Prefixes behind which V8 puts a mark (src/logging/log.cc). */
static const char *const v8_kinds[] = { "LazyCompile:", "Function:", "JS:", "Script:", "Eval:" };

/* V8's marks (src/objects/code-kind.cc): interpreted, baseline, Maglev, TurboFan. */
static const char v8_marks[] = "~^+*";

/* .NET's suffixes (src/coreclr/vm/perfmap.cpp). */
static const char *const dotnet_tiers[] = {
	"[MinOptJitted]",      "[Optimized]",
	"[QuickJitted]",       "[Tier0]",
	"[OptimizedTier1]",    "[Tier1]",
	"[OptimizedTier1OSR]", "[PreJIT]",
	"[InstrumentedTier0]", "[InstrumentedTier1]",
};

static bool begins_with(const char *name, size_t size, const char *start)
{
	size_t length = strlen(start);

	return size >= length && memcmp(name, start, length) == 0;
}

static bool is_v8_mark(char mark)
{
	return mark && strchr(v8_marks, mark);
}

static size_t clean_v8(char *name, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(v8_kinds); i++) {
		size_t at = strlen(v8_kinds[i]), marks = 0;

		if (!begins_with(name, size, v8_kinds[i]) || at == size || !is_v8_mark(name[at]))
			continue;
		marks = at + 1 < size && name[at + 1] == '\'' ? 2 : 1; // "'": context-specialized
		memmove(name + at, name + at + marks, size - at - marks);
		return size - marks;
	}
	return size;
}

static size_t clean_dotnet(const char *name, size_t size)
{
	if (!size || name[size - 1] != ']')
		return size;
	for (size_t i = 0; i < ARRAY_SIZE(dotnet_tiers); i++) {
		size_t length = strlen(dotnet_tiers[i]);

		// A name that is only a suffix stays.
		if (size > length && memcmp(name + size - length, dotnet_tiers[i], length) == 0)
			return size - length;
	}
	return size;
}

size_t jit_name_clean(char *name, size_t size)
{
	return clean_dotnet(name, clean_v8(name, size));
}
