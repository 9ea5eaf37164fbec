// SPDX-License-Identifier: Apache-2.0
// What a blocked thread waits for: the values of the label "wait".
#pragma once

enum wait_class {
	WAIT_CLASS_OTHER,
	WAIT_CLASS_LOCK,
	WAIT_CLASS_GIL,
	WAIT_CLASS_DISK,
	WAIT_CLASS_NETWORK,
	WAIT_CLASS_POLL,
	WAIT_CLASS_SLEEP,
	WAIT_CLASS_PIPE,
	WAIT_CLASS_PAGE_FAULT,
	WAIT_CLASS_GPU,
	WAIT_CLASS_CHILD,
	WAIT_CLASS_STOPPED,
	WAIT_CLASS_IDLE,
	WAIT_CLASS_COUNT,
};

struct wait_class_spec {
	const char *token;   // "page_fault"
	const char *title;   // "page fault"
	const char *meaning; // goes on after "waiting for"
};

/** Of a number that is none: WAIT_CLASS_OTHER's. Never NULL. */
const struct wait_class_spec *wait_class_spec(enum wait_class class);
/** The token: the value of the label "wait". */
const char *wait_class_name(enum wait_class class);
/** The class of @token; WAIT_CLASS_OTHER if there is no such class. */
enum wait_class wait_class_find(const char *token);
