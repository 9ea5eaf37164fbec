// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer is in the program: its shadow memory is far larger than what the program allocates, so memory can
// be neither limited nor measured.
#pragma once

#ifdef __has_feature // Clang says it so, GCC 12 by macros
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif
