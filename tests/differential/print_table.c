// SPDX-License-Identifier: Apache-2.0
// print_table FILE: the rules of its unwind table at the addresses that are read, one a line in hex:
//
//   cfa=REGISTER+OFFSET | cfa=*REGISTER+OFFSET+OFFSET | cfa=plt:THRESHOLD, then fp=..., then ra=...,
//   or one of none, end, signal, unsupported
//
// Saved registers are "same", "lost", "cfa+OFFSET", "fp+OFFSET" or "rNUMBER". A line of the table's
// sizes comes first. Files may be of either architecture.

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"

static void print_saved(const char *name, int rule, int offset)
{
	switch (rule) {
	case SAVED_SAME:
		printf(" %s=same", name);
		return;
	case SAVED_AT_CFA:
		printf(" %s=cfa%+d", name, offset);
		return;
	case SAVED_AT_FP:
		printf(" %s=fp%+d", name, offset);
		return;
	case SAVED_UNDEFINED:
		printf(" %s=lost", name);
		return;
	case SAVED_AT_SP:
		printf(" %s=sp%+d", name, offset);
		return;
	case SAVED_IN_REGISTER:
		printf(" %s=r%d", name, offset);
		return;
	}
	printf(" %s=?%d", name, rule);
}

static void print_rule(const struct unwind_rule *rule)
{
	switch (rule ? rule->cfa : CFA_NO_TABLE) {
	case CFA_NO_TABLE:
		puts("none");
		return;
	case CFA_END:
		puts("end");
		return;
	case CFA_SIGNAL:
		puts("signal");
		return;
	case CFA_UNSUPPORTED:
		puts("unsupported");
		return;
	case CFA_PLT:
		printf("cfa=plt:%d", rule->cfa_offset);
		break;
	case CFA_DEREF:
		printf("cfa=*%d%+d%+d", rule->cfa_register, rule->cfa_offset, rule->deref_offset);
		break;
	default:
		printf("cfa=%d%+d", rule->cfa_register, rule->cfa_offset);
		break;
	}
	print_saved("fp", rule->saved & 15, rule->fp_offset);
	print_saved("ra", rule->saved >> 4, rule->return_offset);
	putchar('\n');
}

static int read_machine(int fd, uint16_t *ret_machine)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
		return -1;
	*ret_machine = header.e_machine;
	return 0;
}

int main(int count, char **arguments)
{
	struct unwind_table *table;
	struct stat status;
	struct error err;
	struct elf elf;
	uint16_t machine;
	uint64_t address;

	if (count != 2) {
		fprintf(stderr, "usage: print_table FILE < addresses\n");
		return 2;
	}
	_cleanup_close_ int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) || read_machine(fd, &machine)) {
		perror(arguments[1]);
		return 1;
	}
	if (elf_read_headers_of(fd, &status, machine, &elf, &err) ||
	    unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err)) {
		fprintf(stderr, "%s: %s\n", arguments[1], err.text);
		return 1;
	}
	printf("rows %u words %u rules %u unsupported %u\n", table->row_count, table->word_count,
	       table->rule_count, table->unsupported_count);
	while (scanf("%" SCNx64, &address) == 1)
		print_rule(unwind_table_find(table, address));
	unwind_table_free(table);
	return 0;
}
