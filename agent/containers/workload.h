// SPDX-License-Identifier: Apache-2.0
// What a pod is a part of, from the owner that it names: a Deployment owns ReplicaSets, a CronJob owns Jobs, and both name
// what they own after themselves.
#pragma once

#include <stdbool.h>

enum { WORKLOAD_NAME_BYTES = 256 }; // a name has 253

struct pod_owner {
	const char *kind, *name;   // of the owner that made the pod
	const char *pod;           // the pod's name
	const char *template_hash; // its label pod-template-hash; "": none
};

struct workload {
	char kind
		[32]; // deployment, replicaset, statefulset, daemonset, job, cronjob, static, or the owner's kind
	char name[WORKLOAD_NAME_BYTES];
};

/** False: the owner has no name. */
bool workload_of(const struct pod_owner *owner, struct workload *ret_workload);
