/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Capacities of the unwinder's maps. The agent limits the bytes of tables and mapping pages as well.
#pragma once

/* A node with many containers maps some 2,000 different files. */
#define UNWIND_TABLES_MAX 4096

/* Only processes that were sampled are published. */
#define UNWIND_PROCESSES_MAX 16384

/* Forked in the last seconds: an exec storm of 10,000 processes a minute makes 1,700 in ten seconds. */
#define INHERITED_PROCESSES_MAX 2048

/* Of all processes; most need one, PyTorch four. A page takes 4 KiB of kernel memory. */
#define UNWIND_MAPPING_PAGES_MAX 16384

/* Sets of the rule cache for each CPU, two rules each: 64 KiB hold PyTorch's calls. */
#define RULE_CACHE_BITS 10
#define RULE_CACHE_SETS (1U << RULE_CACHE_BITS)
