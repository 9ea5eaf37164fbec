// SPDX-License-Identifier: Apache-2.0
// `cairn-collector --check DIR`: reads a whole store, and reports what is damaged.
#pragma once

/** Check the store in @path, with progress on standard error. The exit status: 0 good, 1 damaged, 2 not checked. */
int check_command(const char *path);
