/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Differences of times and spans, in nanoseconds, that never wrap. For the BPF programs, too.
//
// A plain "-" is right only where the later time was read after the earlier one, in the same thread or under the same
// lock, from a clock that is never set. Otherwise:
// - a clock that counts from boot is younger than the span for a while: an agent starts with its machine;
// - a caller's "now" is older than what a callee has read since, or than what another thread has;
// - bpf_ktime_get_ns() of two CPUs may differ by some nanoseconds, and in an NMI it may be ahead;
// - Unix time is set back.
#pragma once

/** The time that has passed; 0 if @to_ns is the earlier of the two. */
static inline __attribute__((always_inline)) unsigned long long ns_between(
	unsigned long long from_ns, unsigned long long to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/** The moment @span_ns before @time_ns; 0, when the clock began, if it had not run for so long. */
static inline __attribute__((always_inline)) unsigned long long ns_before(
	unsigned long long time_ns, unsigned long long span_ns)
{
	return ns_between(span_ns, time_ns);
}
