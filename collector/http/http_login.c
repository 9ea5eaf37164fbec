// SPDX-License-Identifier: Apache-2.0
// The page's login: a token that the browser keeps in a cookie. Each request is judged anew by the access
// file, so a removed token ends its sessions at once, and nothing is kept here.
#include "collector/http/http_handlers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json_text.h"

static void append_roles(struct buffer *body, unsigned int roles)
{
	static const struct {
		enum access_role role;
		const char *word;
	} words[] = {
		{ ACCESS_INGEST, "ingest" },
		{ ACCESS_READ, "read" },
		{ ACCESS_UPLOAD, "upload" },
		{ ACCESS_ADMIN, "admin" },
	};
	bool first = true;

	buffer_append_byte(body, '[');
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!(roles & words[i].role))
			continue;
		buffer_append_string(body, first ? "" : ",");
		json_append_string(body, words[i].word);
		first = false;
	}
	buffer_append_byte(body, ']');
}

void http_handle_whoami(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	const struct identity *identity = &request->http->identity;
	struct buffer *body = &response->body;

	buffer_append_string(body, "{\"who\":");
	json_append_string(body, identity->key);
	buffer_append_string(body, ",\"tenant\":");
	json_append_string(body, identity->tenant);
	buffer_append_string(body, ",\"roles\":");
	append_roles(body, identity->roles);
	buffer_append_string(body, ",\"login\":");
	buffer_append_string(body,
			     api->access && access_needs_login(api->access) ? "true" : "false");
	buffer_append_string(body, "}\n");
}

static void set_cookie(struct http_response *response, const struct http_api *api,
		       const char *value, const char *more)
{
	// Strict: no other site's link or form sends it. Not readable by scripts.
	if (asprintf(&response->set_cookie,
		     ACCESS_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict%s%s", value,
		     api->is_tls ? "; Secure" : "", more) < 0)
		response->set_cookie = NULL;
}

void http_handle_login(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	const char *authorization = request->http->credentials.authorization;

	// The token comes in a header, which no other origin's form can set, not in the path or a body.
	// It was checked before: it is the one that the identity comes from.
	if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
		set_cookie(response, api, authorization + 7, "");
	http_handle_whoami(api, request, response);
}

void http_handle_logout(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	(void)request;
	set_cookie(response, api, "", "; Max-Age=0");
	buffer_append_string(&response->body, "{}\n");
}
