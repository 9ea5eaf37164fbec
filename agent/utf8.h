// SPDX-License-Identifier: Apache-2.0
// Text from files and processes made fit to show and to send: protobuf and JSON want UTF-8.
#pragma once

/** Replace control characters and whatever is not well-formed UTF-8 (RFC 3629) by '?', in place. */
void utf8_clean(char *text);
