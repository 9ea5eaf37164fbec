// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
	WORD_COUNT = PYTHON_DEBUG_OFFSETS_BYTES / 8,
	STATE_NEXT = 8,            // the list's links come first, in every version
	OBJECT_TYPE = 8,           // ob_type, without free threading
	TYPE_BASICSIZE = 32,       // tp_basicsize, after a PyVarObject and tp_name
	OWNED_BY_INTERPRETER = 3,  // enum _frameowner: FRAME_OWNED_BY_CSTACK up to 3.13
	REFERENCE_TAG_BITS = 3,    // 3.14's _PyStackRef uses two; objects are aligned to 8 and more
	STRUCT_BYTES_MAX = 0x7fff, // no structure of the interpreter's that we read is larger
	INTERPRETER_BYTES_MAX = 8 << 20,
};

/* ---- 3.6 to 3.12, by version ------------------------------------------------------------------- */

/* Include/frameobject.h up to 3.9, Include/cpython/frameobject.h in 3.10. Frames are read from f_back on. */
#define FRAME_OBJECT(lasti)                                                                  \
	.frame_start = 24, .frame_bytes = (lasti) + 4 - 24, .frame_previous = 0,             \
	.frame_code = 32 - 24, .frame_position = (lasti)-24, .frame_owner = PYTHON_NO_FIELD, \
	.frame_tlbc = PYTHON_NO_FIELD

/* From an object's start: marks, name (co_qualname or co_name), file, line table. */
#define CODE_PARTS(mark, other_mark, name, file, lines)                                    \
	.code_marks = { (mark)-OBJECT_TYPE, (other_mark)-OBJECT_TYPE }, .code_name = name, \
	.code_file = file, .code_lines = lines
#define CODE_COUNTS(argcount, kwonlyargcount, flags, firstlineno)                 \
	.code_start = OBJECT_TYPE, .code_type = 0, .code_argcount = (argcount)-8, \
	.code_kwonlyargcount = (kwonlyargcount)-8, .code_flags = (flags)-8,       \
	.code_firstlineno = (firstlineno)-8, .code_tlbc = PYTHON_NO_FIELD

#define NO_CFRAME                                                         \
	.state_cframe = PYTHON_NO_FIELD, .cframe_frame = PYTHON_NO_FIELD, \
	.cframe_previous = PYTHON_NO_FIELD

#define NO_STATUS .state_status = PYTHON_NO_FIELD

/*
 * Bits of a thread state's _status (struct _ts in CPython's Include/cpython/pystate.h). In 3.12 an active one holds the GIL;
 * later ones have a bit for that.
 */
enum {
	STATUS_INITIALIZED = 1 << 0,
	STATUS_ACTIVE = 1 << 4,
	STATUS_HOLDS_GIL = 1 << 5,
};
#define STATE_STATUS     32 // since 3.13; no debug offset says it
#define STATUS_MINOR_MAX 14 // the newest version that was looked at

/*
 * Include/pystate.h, Include/internal/pycore_pystate.h, pycore_runtime.h, pycore_interp.h and
 * pycore_frame.h of 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7 and 3.12.1.
 */
static const struct python_layout layouts[] = {
	{
		.offsets = { .minor = 6,
			     .interpreter_threads = 8,
			     .position = PYTHON_POSITION_BYTES,
			     .state_frame = 24,
			     .state_thread = 152,
			     NO_STATUS,
			     NO_CFRAME,
			     FRAME_OBJECT(120),
			     CODE_COUNTS(16, 20, 32, 36),
			     CODE_PARTS(40, 48, 104, 96, 112) },
		.runtime_interpreters = PYTHON_NO_FIELD,
		.runtime_holder = PYTHON_NO_FIELD,
		.code_basicsize = 144,
	},
	{
		.offsets = { .minor = 7,
			     .interpreter_threads = 8,
			     .position = PYTHON_POSITION_BYTES,
			     .state_frame = 24,
			     .state_thread = 176,
			     NO_STATUS,
			     NO_CFRAME,
			     FRAME_OBJECT(104),
			     CODE_COUNTS(16, 20, 32, 36),
			     CODE_PARTS(40, 48, 104, 96, 112) },
		.runtime_interpreters = 24,
		.runtime_holder = 1480,
		.code_basicsize = 144,
	},
	{
		.offsets = { .minor = 8,
			     .interpreter_threads = 8,
			     .position = PYTHON_POSITION_BYTES,
			     .state_frame = 24,
			     .state_thread = 176,
			     NO_STATUS,
			     NO_CFRAME,
			     FRAME_OBJECT(104),
			     CODE_COUNTS(16, 24, 36, 40),
			     CODE_PARTS(48, 56, 112, 104, 120) },
		.runtime_interpreters = 32,
		.runtime_holder = 1368,
		.code_basicsize = 176,
	},
	{
		.offsets = { .minor = 9,
			     .interpreter_threads = 8,
			     .position = PYTHON_POSITION_BYTES,
			     .state_frame = 24,
			     .state_thread = 176,
			     NO_STATUS,
			     NO_CFRAME,
			     FRAME_OBJECT(104),
			     CODE_COUNTS(16, 24, 36, 40),
			     CODE_PARTS(48, 56, 112, 104, 120) },
		.runtime_interpreters = 32,
		.runtime_holder = 568,
		.code_basicsize = 176,
	},
	{
		.offsets = { .minor = 10,
			     .interpreter_threads = 8,
			     .position = PYTHON_POSITION_UNITS,
			     .state_frame = 24,
			     .state_thread = 176,
			     NO_STATUS,
			     .state_cframe = 48,
			     .cframe_frame = PYTHON_NO_FIELD,
			     .cframe_previous = 8,
			     FRAME_OBJECT(96),
			     CODE_COUNTS(16, 24, 36, 40),
			     CODE_PARTS(48, 56, 112, 104, 120) },
		.runtime_interpreters = 32,
		.runtime_holder = 568,
		.code_basicsize = 176,
	},
	{
		.offsets = { .minor = 11,
			     .interpreter_threads = 16,
			     .entry = PYTHON_ENTRY_FLAG,
			     .position = PYTHON_POSITION_POINTER,
			     .state_frame = PYTHON_NO_FIELD,
			     .state_thread = 152,
			     NO_STATUS,
			     .state_cframe = 56,
			     .cframe_frame = 8,
			     .cframe_previous = 16,
			     .frame_bytes = 72,
			     .frame_previous = 48,
			     .frame_code = 32,
			     .frame_position = 56,
			     .frame_owner = 68,
			     .frame_tlbc = PYTHON_NO_FIELD,
			     CODE_COUNTS(56, 64, 48, 72),
			     CODE_PARTS(24, 32, 128, 112, 136),
			     .code_instructions = 184 },
		.runtime_interpreters = 40,
		.runtime_holder = 576,
		.code_basicsize = 184,
	},
	{
		.offsets = { .minor = 12,
			     .interpreter_threads = 72,
			     .entry = PYTHON_ENTRY_SHIM,
			     .position = PYTHON_POSITION_POINTER,
			     .shim_owner = OWNED_BY_INTERPRETER,
			     .state_frame = PYTHON_NO_FIELD,
			     .state_thread = 136,
			     .state_status = 24,
			     .status_holds_gil = STATUS_INITIALIZED | STATUS_ACTIVE,
			     .state_cframe = 56,
			     .cframe_frame = 0,
			     .cframe_previous = 8,
			     .frame_bytes = 72,
			     .frame_previous = 8,
			     .frame_code = 0,
			     .frame_position = 56,
			     .frame_owner = 70,
			     .frame_tlbc = PYTHON_NO_FIELD,
			     CODE_COUNTS(52, 60, 48, 68),
			     CODE_PARTS(24, 92, 128, 112, 136),
			     .code_instructions = 192 },
		.runtime_interpreters = 40,
		.runtime_holder = PYTHON_NO_FIELD,
		.code_basicsize = 192,
	},
};

int python_layout_of_version(uint32_t minor, struct python_layout *ret_layout)
{
	if (minor < PYTHON_MINOR_MIN || minor >= PYTHON_MINOR_DEBUG_OFFSETS)
		return -ENOTSUP;
	*ret_layout = layouts[minor - PYTHON_MINOR_MIN];
	ret_layout->offsets.state_next = STATE_NEXT;
	ret_layout->state_interpreter = 16;
	ret_layout->type_basicsize = TYPE_BASICSIZE;
	return 0;
}

/* ---- 3.13 and newer, by _Py_DebugOffsets --------------------------------------------------------- */

/*
 * Include/internal/pycore_debug_offsets.h: cookie, version, free_threaded flag, then for each structure its size and
 * the offsets of its fields, all of 64 bits. Versions insert fields, so a structure is recognized by relations among
 * its offsets that hold in every version.
 */
enum {
	WORD_COOKIE,
	WORD_VERSION,
	WORD_FREE_THREADED,
	WORD_RUNTIME_SIZE,
	WORD_RUNTIME_FINALIZING,
	WORD_RUNTIME_INTERPRETERS,
	WORD_INTERPRETER_SIZE,
	WORD_INTERPRETER_ID,
	WORD_INTERPRETER_NEXT,
	WORD_INTERPRETER_THREADS,
	WORD_STRUCTURES, // the following words move from version to version
};

/* Words of each structure that are read. Older versions have fewer; then the next structure's follow. */
enum { STATE_WORDS = 7, FRAME_WORDS = 8, CODE_WORDS = 11, OBJECT_WORDS = 2 };

struct debug_offsets {
	uint64_t words[WORD_COUNT];
	uint32_t count;
};

/* Is there a word at @offset, before @limit? Sums of hostile numbers could wrap: none here. */
static bool is_word_before(uint64_t offset, uint64_t limit)
{
	return offset % 8 == 0 && limit >= 8 && offset <= limit - 8;
}

/* size, prev, next, interp, current_frame, ...: the list's links come first. */
static bool is_thread_state(const uint64_t *words)
{
	return words[0] <= STRUCT_BYTES_MAX && words[1] == 0 && words[2] == 8 && words[3] == 16 &&
	       words[4] > 16 && is_word_before(words[4], words[0]);
}

/* size, previous, executable, instr_ptr, localsplus, owner: the locals begin in the last word. */
static bool is_frame(const uint64_t *words)
{
	uint64_t size = words[0], locals = words[4];

	return size >= 64 && size <= PYTHON_FRAME_BYTES_MAX && locals == size - 8 &&
	       is_word_before(words[1], locals) && is_word_before(words[2], locals) &&
	       is_word_before(words[3], locals) && words[5] < locals;
}

/* size, filename, name, qualname, linetable, firstlineno, argcount, ..., co_code_adaptive. */
static bool is_code(const uint64_t *words)
{
	uint64_t size = words[0], counts_max = PYTHON_CODE_BYTES + OBJECT_TYPE;

	return size <= STRUCT_BYTES_MAX && words[2] == words[1] + 8 && words[3] == words[2] + 8 &&
	       words[4] > words[3] && words[5] <= counts_max && words[6] >= 24 &&
	       words[6] <= counts_max && words[5] % 4 == 0 && words[6] % 4 == 0 &&
	       words[9] < size && words[9] > words[4];
}

/* size, ob_type: the head's last word is the type. */
static bool is_object(const uint64_t *words)
{
	return (words[0] == 16 || words[0] == 32) && words[1] == words[0] - 8;
}

/* The first @size words from *at on for which @is_it holds. *at is then behind their start. */
static const uint64_t *find_words(const struct debug_offsets *debug, uint32_t *at, uint32_t size,
				  bool (*is_it)(const uint64_t *words))
{
	for (uint32_t i = *at; i + size <= debug->count; i++) {
		if (is_it(&debug->words[i])) {
			*at = i + 1;
			return &debug->words[i];
		}
	}
	return NULL;
}

static void set_frame(struct python_offsets *offsets, const uint64_t *words)
{
	offsets->frame_start = 0;
	offsets->frame_bytes = words[4]; // up to the locals
	offsets->frame_previous = words[1];
	offsets->frame_code = words[2];
	offsets->frame_position = words[3];
	offsets->frame_owner = words[5];
	// Since 3.14: stackpointer, tlbc_index.
	offsets->frame_tlbc = PYTHON_NO_FIELD;
	if (offsets->free_threaded && offsets->minor >= 14 && words[7] <= words[4] - 4 &&
	    words[7] % 4 == 0 && words[7])
		offsets->frame_tlbc = words[7];
}

/* Include/cpython/code.h since 3.12: co_flags, co_argcount, co_posonlyargcount, co_kwonlyargcount. */
static void set_code(struct python_offsets *offsets, const uint64_t *words)
{
	uint64_t argcount = words[6] - offsets->code_start;

	offsets->code_argcount = argcount;
	offsets->code_flags = argcount - 4;
	offsets->code_kwonlyargcount = argcount + 8;
	offsets->code_firstlineno = words[5] - offsets->code_start;
	offsets->code_instructions = words[9];
	offsets->code_file = words[1];
	offsets->code_name = words[3];
	offsets->code_lines = words[4];
	// co_consts comes after ob_type and ob_size, co_version right before co_localsplusnames.
	offsets->code_marks[0] = 16;
	offsets->code_marks[1] = words[7] - 4 - offsets->code_start;
	if (offsets->code_marks[1] > PYTHON_CODE_BYTES - 4 || words[7] % 4)
		offsets->code_marks[1] = offsets->code_marks[0] + 8; // co_names
	offsets->code_tlbc = PYTHON_NO_FIELD;
	if (offsets->frame_tlbc != PYTHON_NO_FIELD && words[10] &&
	    is_word_before(words[10], words[0]))
		offsets->code_tlbc = words[10];
	else
		offsets->frame_tlbc = PYTHON_NO_FIELD;
}

/* thread_id is right before native_thread_id, somewhere among the later fields. */
static uint16_t find_thread_id(const struct debug_offsets *debug, const uint64_t *state)
{
	const uint64_t *limit = debug->words + debug->count - 1;

	for (const uint64_t *word = state + 5; word < limit && word < state + 16; word++) {
		if (word[1] == word[0] + 8 && word[0] > state[4] + 32 && word[1] < state[0])
			return word[0];
	}
	return PYTHON_NO_FIELD;
}

static int set_structures(const struct debug_offsets *debug, struct python_layout *layout,
			  struct error *err)
{
	struct python_offsets *offsets = &layout->offsets;
	const uint64_t *state, *frame, *code, *object;
	uint32_t at = WORD_STRUCTURES;

	state = find_words(debug, &at, STATE_WORDS, is_thread_state);
	frame = state ? find_words(debug, &at, FRAME_WORDS, is_frame) : NULL;
	code = frame ? find_words(debug, &at, CODE_WORDS, is_code) : NULL;
	object = code ? find_words(debug, &at, OBJECT_WORDS, is_object) : NULL;
	if (!object)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.%u stay native: unexpected debug offsets of "
				 "its %s",
				 offsets->minor,
				 !state   ? "thread states"
				 : !frame ? "frames"
				 : !code  ? "code objects"
					  : "objects");

	offsets->state_frame = state[4];
	offsets->state_thread = find_thread_id(debug, state);
	offsets->code_start = object[1];
	offsets->code_type = 0;
	if (code[5] < object[1] || code[6] < object[1] + 4 ||
	    code[5] - object[1] + 4 > PYTHON_CODE_BYTES ||
	    code[6] - object[1] + 12 > PYTHON_CODE_BYTES ||
	    offsets->state_thread == PYTHON_NO_FIELD)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.%u stay native: contradictory debug offsets",
				 offsets->minor);
	set_frame(offsets, frame);
	set_code(offsets, code);
	layout->type_basicsize = TYPE_BASICSIZE + object[0] - 16;
	layout->code_basicsize = code[9]; // the instructions begin where the fixed part ends
	return 0;
}

static int set_runtime(const struct debug_offsets *debug, struct python_layout *layout,
		       struct error *err)
{
	const uint64_t *words = debug->words;

	if (words[WORD_RUNTIME_INTERPRETERS] > STRUCT_BYTES_MAX ||
	    words[WORD_INTERPRETER_SIZE] > INTERPRETER_BYTES_MAX ||
	    words[WORD_INTERPRETER_NEXT] > STRUCT_BYTES_MAX ||
	    words[WORD_INTERPRETER_THREADS] > STRUCT_BYTES_MAX)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython 3.%u stay native: unexpected debug offsets of "
				 "its runtime",
				 layout->offsets.minor);
	layout->runtime_interpreters = words[WORD_RUNTIME_INTERPRETERS];
	layout->runtime_holder = PYTHON_NO_FIELD;
	layout->interpreter_next = words[WORD_INTERPRETER_NEXT];
	layout->offsets.interpreter_threads = words[WORD_INTERPRETER_THREADS];
	layout->offsets.state_next = STATE_NEXT;
	layout->state_interpreter = 16;
	return 0;
}

int python_layout_of_debug_offsets(const void *bytes, size_t size, struct python_layout *ret_layout,
				   struct error *err)
{
	struct debug_offsets debug = { 0 };
	struct python_layout layout = { 0 };
	struct python_offsets *offsets = &layout.offsets;
	uint64_t version;
	int rc;

	debug.count = size / 8 < WORD_COUNT ? size / 8 : WORD_COUNT;
	memcpy(debug.words, bytes, debug.count * 8UL);
	if (debug.count < WORD_STRUCTURES || memcmp(bytes, "xdebugpy", 8) != 0)
		return -ENOENT;
	version = debug.words[WORD_VERSION];
	offsets->minor = version >> 16 & 0xff;
	if (version >> 24 != 3 || offsets->minor < PYTHON_MINOR_DEBUG_OFFSETS)
		return error_set(err, -ENOTSUP,
				 "stacks of CPython stay native: debug offsets of version %#llx",
				 (unsigned long long)version);
	offsets->free_threaded = debug.words[WORD_FREE_THREADED] != 0;
	offsets->entry = PYTHON_ENTRY_SHIM;
	offsets->position = PYTHON_POSITION_POINTER;
	offsets->shim_owner = OWNED_BY_INTERPRETER;
	offsets->reference_tag_bits = offsets->minor >= 14 ? REFERENCE_TAG_BITS : 0;
	offsets->state_status = PYTHON_NO_FIELD;
	if (!offsets->free_threaded && offsets->minor <= STATUS_MINOR_MAX) {
		offsets->state_status = STATE_STATUS;
		offsets->status_holds_gil = STATUS_INITIALIZED | STATUS_HOLDS_GIL;
	}
	offsets->state_cframe = PYTHON_NO_FIELD;
	offsets->cframe_frame = PYTHON_NO_FIELD;
	offsets->cframe_previous = PYTHON_NO_FIELD;
	rc = set_runtime(&debug, &layout, err);
	if (!rc)
		rc = set_structures(&debug, &layout, err);
	if (rc)
		return rc;
	*ret_layout = layout;
	return 0;
}
