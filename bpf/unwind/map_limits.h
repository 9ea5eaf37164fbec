/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// How many of everything the maps of the unwinder hold. The agent keeps the bytes of tables and
// mapping pages within a budget besides.
#pragma once

/* Tables in the kernel at a time: a node of many containers maps some 2,000 different files. */
#define UNWIND_TABLES_MAX 4096

/* Processes that can be unwound by tables at a time: only those that were sampled are there. */
#define UNWIND_PROCESSES_MAX 16384

/* Forked in the last seconds: an exec storm of 10,000 processes a minute makes 1,700 in ten. */
#define INHERITED_PROCESSES_MAX 2048

/* Of all processes together; most need one, PyTorch four. A page takes 4 KiB of kernel memory. */
#define UNWIND_MAPPING_PAGES_MAX 16384
