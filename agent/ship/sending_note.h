// SPDX-License-Identifier: Apache-2.0
// A note in the spool's folder of the batch that is being sent. A batch that kills the agent, by the memory that it takes or
// by a fault, would kill each start after it: the file outlives the agent. After SENDING_STARTS_MAX such starts it is dropped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SENDING_NOTE_NAME "sending"

enum {
	// One is not enough: what ends an agent while the collector is away ends it at the same batch, whatever the reason.
	SENDING_STARTS_MAX = 3, // that ended while they sent the same batch
};

/** One thread at a time. */
struct sending_note {
	int fd;          // of the file; -1: none, and nothing is noted
	uint64_t number; // of the batch that the last start was sending; 0: none
	uint64_t starts; // in a row that ended so, the last one included
};

/** Read what the last start has left in @folder. Without the file a batch may end the agent again. */
void sending_note_open(int folder, struct sending_note *ret_note);
/** Did it end so many starts that it should not be sent again? */
bool sending_note_is_suspect(const struct sending_note *note, uint64_t number);
/** It is being sent from now on; 0: none is. */
void sending_note_write(struct sending_note *note, uint64_t number);
void sending_note_close(struct sending_note *note);
