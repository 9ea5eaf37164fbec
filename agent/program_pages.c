// SPDX-License-Identifier: Apache-2.0
#include "agent/program_pages.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static bool has_text_relocations(const struct dl_phdr_info *object)
{
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const ElfW(Dyn) *entry =
			(const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
		for (; entry->d_tag != DT_NULL; entry++) {
			if (entry->d_tag == DT_TEXTREL ||
			    (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
				return true;
		}
	}
	return false;
}

// Writable segments, which hold what was relocated, keep their pages.
static int release_object(struct dl_phdr_info *object, size_t size, void *context)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)context;
	if (has_text_relocations(object))
		return 0;
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + segment->p_vaddr;
		uintptr_t limit = (start + segment->p_memsz + page - 1) & ~(page - 1);

		start &= ~(page - 1);
		if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W))
			madvise((void *)start, limit - start, MADV_DONTNEED);
	}
	return 0;
}

void program_pages_release(void)
{
	dl_iterate_phdr(release_object, NULL);
}
