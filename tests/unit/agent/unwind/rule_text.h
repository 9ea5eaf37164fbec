// SPDX-License-Identifier: Apache-2.0
// Unwind rules as a few characters, so that a table of tests has whole functions in a line:
//
//   "7+16 c-16 c-8"   CFA is register 7 + 16; frame pointer at CFA - 16; return address at CFA - 8
//   "*6-8+0 f+0 c-8"  CFA is in memory at register 6 - 8; frame pointer at the frame pointer + 0
//   "31+0 = ="        both in their registers; "r5": in register 5; "?": lost
//   "plt11 = c-8", "none", "end", "signal", "unsupported"; a "!" follows flags
#pragma once

#include <stdio.h>

#include "bpf/unwind/table_layout.h"

enum { RULE_TEXT_BYTES = 64 };

static inline void saved_text(char *text, size_t size, int rule, int offset)
{
	switch (rule) {
	case SAVED_SAME:
		snprintf(text, size, "=");
		return;
	case SAVED_AT_CFA:
		snprintf(text, size, "c%+d", offset);
		return;
	case SAVED_AT_FP:
		snprintf(text, size, "f%+d", offset);
		return;
	case SAVED_AT_SP:
		snprintf(text, size, "s%+d", offset);
		return;
	case SAVED_IN_REGISTER:
		snprintf(text, size, "r%d", offset);
		return;
	}
	snprintf(text, size, "?");
}

static inline void rule_text(char text[RULE_TEXT_BYTES], const struct unwind_rule *rule)
{
	static const char *const names[] = {
		[CFA_NO_TABLE] = "none",
		[CFA_END] = "end",
		[CFA_SIGNAL] = "signal",
		[CFA_UNSUPPORTED] = "unsupported",
	};
	const char *mark = rule && rule->flags ? "!" : "";
	char cfa[24], fp[16], ra[16];

	switch (rule ? rule->cfa : CFA_NO_TABLE) {
	case CFA_REGISTER:
		snprintf(cfa, sizeof(cfa), "%d%+d", rule->cfa_register, rule->cfa_offset);
		break;
	case CFA_DEREF:
		snprintf(cfa, sizeof(cfa), "*%d%+d%+d", rule->cfa_register, rule->cfa_offset,
			 rule->deref_offset);
		break;
	case CFA_PLT:
		snprintf(cfa, sizeof(cfa), "plt%d", rule->cfa_offset);
		break;
	default:
		snprintf(text, RULE_TEXT_BYTES, "%s%s", names[rule ? rule->cfa : CFA_NO_TABLE],
			 mark);
		return;
	}
	saved_text(fp, sizeof(fp), rule->saved & 15, rule->fp_offset);
	saved_text(ra, sizeof(ra), rule->saved >> 4, rule->return_offset);
	snprintf(text, RULE_TEXT_BYTES, "%s %s %s%s", cfa, fp, ra, mark);
}
