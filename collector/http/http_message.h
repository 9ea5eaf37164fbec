// SPDX-License-Identifier: Apache-2.0
// HTTP messages of libmicrohttpd: a request as handlers see it, and a response as it is sent.
#pragma once

#include <stdbool.h>

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/address.h"
#include "collector/http/http_exchange.h"

/** A header, or NULL. */
const char *http_message_header(struct MHD_Connection *connection, const char *name);

/** The client's address. NULL: it is not known. */
const struct sockaddr *http_message_address(struct MHD_Connection *connection);
/** The same as text, "" if it is not known, and who that is (address_peer_name()), untouched if it is not known. */
void http_message_read_peer(struct MHD_Connection *connection, char ret_address[INET6_ADDRSTRLEN],
			    char ret_peer[ADDRESS_PEER_BYTES]);

/** Read path, parameters and conditions into @request; they are libmicrohttpd's, and last as long as its request. */
void http_message_read(struct MHD_Connection *connection, const char *path,
		       struct http_request *request);

/** What says who sent the request; @proxy_header names a user whom a proxy has authenticated, NULL: none does. */
struct access_request http_message_credentials(struct MHD_Connection *connection, bool is_tls,
					       const char *proxy_header, const char *address);

/** False: no method that is answered. */
bool http_message_method(const char *text, enum http_method *ret_method);
bool http_message_has_body(struct MHD_Connection *connection);

/** The answer with its headers; its body stays @response's. NULL when out of memory. */
struct MHD_Response *http_message_answer(struct http_response *response);
