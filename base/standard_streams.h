// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error, where who starts us has closed some of them.
#pragma once

/**
 * Occupy those that are closed, so that no file, socket or map that is opened later becomes one of them
 * and is written to. To be called first in main(); writing to such a stream fails with EBADF.
 */
void standard_streams_occupy(void);
