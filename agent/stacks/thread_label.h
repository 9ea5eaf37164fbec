// SPDX-License-Identifier: Apache-2.0
// The value of the label `thread`: a thread's name without its number, so that a pool of threads is one series.
#pragma once

#include "bpf/sample.h"

enum { THREAD_LABEL_BYTES = THREAD_NAME_BYTES + 1 };

/** A thread's name as it is, made UTF-8. @name has THREAD_NAME_BYTES, with or without a NUL. */
void thread_label_exact(const char *name, char ret_label[THREAD_LABEL_BYTES]);

/**
 * The same with "N" for each number that ends the name or follows a character that is neither letter nor digit:
 * "worker-17" and "worker-3" are "worker-N", "GC Thread#0" is "GC Thread#N"; "C2 CompilerThre" stays. A thread called
 * like its process keeps its name, such as "python3.11". @process NULL: unknown.
 */
void thread_label_of(const char *name, const char *process, char ret_label[THREAD_LABEL_BYTES]);
