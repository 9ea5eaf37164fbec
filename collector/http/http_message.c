// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_message.h"

#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"

// Scripts, styles and requests from this origin only; no framing, no sniffing of media types.
#define CONTENT_SECURITY_POLICY                                                                \
	"default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

// ---- requests -------------------------------------------------------------------------------

const char *http_message_header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

const struct sockaddr *http_message_address(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	return info ? info->client_addr : NULL;
}

void http_message_read_peer(struct MHD_Connection *connection, char ret_address[INET6_ADDRSTRLEN],
			    char ret_peer[ADDRESS_PEER_BYTES])
{
	const struct sockaddr *peer = http_message_address(connection);
	const void *bytes = NULL;

	if (peer)
		address_peer_name(peer, ret_peer);

	if (peer && peer->sa_family == AF_INET)
		bytes = &((const struct sockaddr_in *)peer)->sin_addr;
	else if (peer && peer->sa_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)peer)->sin6_addr;
	if (!bytes || !inet_ntop(peer->sa_family, bytes, ret_address, INET6_ADDRSTRLEN))
		ret_address[0] = '\0';
}

static enum MHD_Result add_parameter(void *context, enum MHD_ValueKind kind, const char *name,
				     size_t name_size, const char *value, size_t value_size)
{
	struct http_request *request = context;

	(void)kind;
	if (request->parameter_count == HTTP_PARAMETERS_MAX || strlen(name) != name_size ||
	    (value && strlen(value) != value_size)) {
		request->malformed = true;
		return MHD_NO;
	}
	request->parameters[request->parameter_count++] = (struct http_parameter){
		.name = name,
		.value = value ? value : "",
	};
	return MHD_YES;
}

void http_message_read(struct MHD_Connection *connection, const char *path,
		       struct http_request *request)
{
	request->path = path;
	request->if_none_match = http_message_header(connection, "If-None-Match");
	request->accepts_gzip =
		http_accepts_gzip(http_message_header(connection, "Accept-Encoding"));
	MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add_parameter, request);
}

struct named_header {
	const char *name;
	const char *first;
	uint32_t count;
};

static enum MHD_Result find_named(void *context, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	struct named_header *header = context;

	(void)kind;
	if (strcasecmp(name, header->name) == 0 && !header->count++)
		header->first = value;
	return MHD_YES;
}

static struct named_header find_header(struct MHD_Connection *connection, const char *name)
{
	struct named_header header = { .name = name };

	if (name)
		MHD_get_connection_values(connection, MHD_HEADER_KIND, find_named, &header);
	return header;
}

struct access_request http_message_credentials(struct MHD_Connection *connection, bool is_tls,
					       const char *proxy_header, const char *address)
{
	const union MHD_ConnectionInfo *tls =
		is_tls ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
		       : NULL;
	const struct named_header proxy_user = find_header(connection, proxy_header);

	return (struct access_request){
		.address = address,
		.authorization = http_message_header(connection, "Authorization"),
		.cookie = http_message_header(connection, "Cookie"),
		.proxy_user = proxy_user.first,
		.has_more_users = proxy_user.count > 1,
		.tls_session = tls ? tls->tls_session : NULL,
	};
}

bool http_message_method(const char *text, enum http_method *ret_method)
{
	static const struct {
		const char *text;
		enum http_method method;
	} methods[] = { { "GET", HTTP_GET },
			{ "HEAD", HTTP_GET },
			{ "PUT", HTTP_PUT },
			{ "POST", HTTP_POST },
			{ "DELETE", HTTP_DELETE } };

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].text, text) == 0) {
			*ret_method = methods[i].method;
			return true;
		}
	}
	return false;
}

bool http_message_has_body(struct MHD_Connection *connection)
{
	const char *size = http_message_header(connection, "Content-Length");

	return (size && strcmp(size, "0") != 0) ||
	       http_message_header(connection, "Transfer-Encoding");
}

// ---- answers --------------------------------------------------------------------------------

static void add_header(struct MHD_Response *answer, const char *name, const char *value)
{
	if (value)
		MHD_add_response_header(answer, name, value);
}

static void add_headers(struct MHD_Response *answer, const struct http_response *response)
{
	char seconds[16], resolution[24];

	add_header(answer, "Content-Type", response->media_type);
	add_header(answer, "ETag", response->etag);
	add_header(answer, "Content-Disposition", response->disposition);
	add_header(answer, "Content-Encoding", response->is_gzip ? "gzip" : NULL);
	add_header(answer, "Vary", response->varies ? "Accept-Encoding" : NULL);
	// With an ETag the browser revalidates; other responses are never cached.
	add_header(answer, "Cache-Control", response->etag ? "no-cache" : "no-store");
	add_header(answer, "Content-Security-Policy", CONTENT_SECURITY_POLICY);
	add_header(answer, "X-Content-Type-Options", "nosniff");
	add_header(answer, "Referrer-Policy", "no-referrer");
	add_header(answer, "Set-Cookie", response->set_cookie);
	if (response->status == 401)
		add_header(answer, "WWW-Authenticate", "Bearer realm=\"cairn\"");
	if (response->status == 405)
		add_header(answer, "Allow", response->allow ? response->allow : "GET, HEAD");
	// An unread body must not be parsed as the next request.
	if (response->closes || response->status == 405 || response->status == 413)
		add_header(answer, "Connection", "close");
	add_header(answer, "Cairn-Incomplete",
		   response->incomplete[0] ? response->incomplete : NULL);
	if (response->resolution_ns) {
		snprintf(resolution, sizeof(resolution), "%llus",
			 (unsigned long long)(response->resolution_ns / NS_PER_SECOND));
		add_header(answer, "Cairn-Resolution", resolution);
	}
	if (response->retry_after_s) {
		snprintf(seconds, sizeof(seconds), "%u", response->retry_after_s);
		add_header(answer, "Retry-After", seconds);
	}
}

struct MHD_Response *http_message_answer(struct http_response *response)
{
	// Of two bodies neither is copied: the exchange owns its own, and outlives the answer.
	bool is_fixed = response->fixed_body;
	struct MHD_Response *answer = MHD_create_response_from_buffer(
		is_fixed ? response->fixed_size : response->body.size,
		is_fixed ? (void *)response->fixed_body : response->body.bytes,
		MHD_RESPMEM_PERSISTENT);

	if (answer)
		add_headers(answer, response);
	return answer;
}
