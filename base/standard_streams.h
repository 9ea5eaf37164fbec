// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error, where who starts us has closed some of them.
#pragma once

/**
 * Occupy those that are closed, so that no file, socket or map that is opened later becomes one of them
 * and is written to. To be called first in main(); writing to such a stream fails with EBADF.
 */
void standard_streams_occupy(void);

/**
 * The exit status of a program that is done with @code: what was printed has to have gone somewhere. 1, and a line on
 * standard error that begins with @program, if @code is 0 and standard output could not be written.
 */
int standard_streams_finish(const char *program, int code);
