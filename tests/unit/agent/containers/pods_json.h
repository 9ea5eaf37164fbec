// SPDX-License-Identifier: Apache-2.0
// Pods as an API server describes them, cut to what is read. For tests.
#pragma once

#define POD_UID       "0b9f4f5c-0f6e-4a3e-9a9c-0a1b2c3d4e5f"
#define OTHER_POD_UID "1b9f4f5c-0f6e-4a3e-9a9c-0a1b2c3d4e5f"
#define STATIC_HASH   "0123456789abcdef0123456789abcdef"
#define WEB_ID        "1111111111111111111111111111111111111111111111111111111111111111"
#define PROXY_ID      "2222222222222222222222222222222222222222222222222222222222222222"
#define PAUSE_ID      "3333333333333333333333333333333333333333333333333333333333333333"

/* A pod of a Deployment, with @labels and @annotations (members of objects) and @statuses of its containers. */
#define POD_JSON(uid, labels, annotations, statuses)                                            \
	"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-7d4b9c-x2x4z\",\"namespace\":\"shop\"," \
	"\"uid\":\"" uid "\",\"resourceVersion\":\"4711\",\"labels\":{" labels                  \
	"\"pod-template-hash\":\"7d4b9c\"},\"annotations\":{" annotations "},"                  \
	"\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"web-7d4b9c\","                \
	"\"controller\":true}]},\"spec\":{\"nodeName\":\"n1\",\"containers\":["                 \
	"{\"name\":\"web\",\"image\":\"registry:5000/shop/web:1.2.3\"},"                        \
	"{\"name\":\"proxy\",\"image\":\"proxy@sha256:abcdef0123456789abcdef\"}]},"             \
	"\"status\":{\"phase\":\"Running\",\"containerStatuses\":[" statuses "]}}"

#define STATUS_JSON(name, id) "{\"name\":\"" name "\",\"containerID\":\"containerd://" id "\"}"
#define BOTH_STATUSES         STATUS_JSON("web", WEB_ID) "," STATUS_JSON("proxy", PROXY_ID)
