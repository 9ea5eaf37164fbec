// SPDX-License-Identifier: Apache-2.0
// The version that a container image's name says.
#pragma once

#include <stddef.h>

enum { IMAGE_VERSION_BYTES = 256 };

/**
 * The tag of "registry:5000/team/app:1.2@sha256:DIGEST", else the begin of its digest, clean to be a label's value. "":
 * neither.
 */
void image_version(const char *image, char ret_version[IMAGE_VERSION_BYTES]);
