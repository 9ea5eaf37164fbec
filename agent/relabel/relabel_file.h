// SPDX-License-Identifier: Apache-2.0
// Relabel rules out of a YAML file: a list of rules, or relabel_configs with that list, as Prometheus's scrape_config has it.
#pragma once

#include "agent/relabel/relabel_rules.h"
#include "base/error.h"

enum { RELABEL_FILE_BYTES_MAX = 256 << 10 }; // 128 rules of 2 KiB

/**
 * Read and check the rules of @path. Returns 0; -EINVAL: @err names file, line, field and remedy; -EFBIG; -ENOMEM; -errno.
 */
int relabel_file_read(const char *path, struct relabel_rules **ret_rules, struct error *err);
