// SPDX-License-Identifier: Apache-2.0
// Any bytes as a mangled name: it is demangled or copied, in bounded time.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/symbols/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char mangled[MANGLED_BYTES_MAX + 16], name[DEMANGLED_BYTES_MAX];

	if (size > sizeof(mangled) - 3)
		return 0;
	memcpy(mangled, size % 2 ? "_R" : "_Z", 2);
	memcpy(mangled + 2, bytes, size);
	mangled[size + 2] = '\0';
	demangle(mangled, name);
	if (strlen(name) >= sizeof(name))
		abort();
	return 0;
}
