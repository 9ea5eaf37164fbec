// SPDX-License-Identifier: Apache-2.0
// It lies in base now.
#pragma once

#include "base/json_text.h"
