// SPDX-License-Identifier: Apache-2.0
// `cairn-collector --new-token NAME`: makes a credential.
#pragma once

#include <stdio.h>

#include "collector/options.h"

/**
 * Make a token of options->roles, print it on @stream, and append its line to options->access; without one the line
 * goes to standard error. The secret is printed once, only its hash is stored: so it is flushed first, and a token that
 * could not be printed is not added. Returns 0, or a negative errno with @err.
 */
int token_command(const struct collector_options *options, FILE *stream, struct error *err);
