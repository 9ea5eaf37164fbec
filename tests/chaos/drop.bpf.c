// SPDX-License-Identifier: GPL-2.0
// Drops one packet in five that an interface receives: a bad network, where the kernel has no netem.
//
//	ip link set dev DEV xdpgeneric obj drop.bpf.o sec xdp
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int drop_one_in_five(struct xdp_md *context)
{
	return bpf_get_prandom_u32() % 5 ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
