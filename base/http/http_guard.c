// SPDX-License-Identifier: Apache-2.0
// Host is checked against DNS rebinding, Origin and Sec-Fetch-Site against pages of other sites. See
// "Fetch Metadata Request Headers" (W3C) and RFC 9110, 7.2 and 15.5.20.
#include "base/http/http_guard.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/** The host of "host", "host:port" or "[address]:port": a part of that text. */
struct host {
	const char *at;
	size_t size;
	bool is_address6; // it stood in brackets
};

static const char name_letters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

static bool is_port(const char *text)
{
	return !*text || (*text == ':' && strspn(text + 1, "0123456789") == strlen(text + 1));
}

static bool split_host(const char *text, struct host *ret_host)
{
	if (*text == '[') {
		size_t size = strcspn(text + 1, "]");

		*ret_host = (struct host){ text + 1, size, true };
		return size && text[1 + size] == ']' && is_port(text + size + 2);
	}
	size_t size = strspn(text, name_letters);
	bool valid = size && size <= HTTP_GUARD_NAME_BYTES_MAX + 1 && is_port(text + size);

	if (size > 1 && text[size - 1] == '.') // the root's dot
		size--;
	*ret_host = (struct host){ text, size, false };
	return valid;
}

static bool host_is(struct host host, const char *name)
{
	return !host.is_address6 && strlen(name) == host.size &&
	       strncasecmp(host.at, name, host.size) == 0;
}

/** An address cannot be rebound: who calls it by a browser has its page from there. */
static bool is_address(struct host host)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr address;

	if (host.size >= sizeof(text))
		return false;
	memcpy(text, host.at, host.size);
	return inet_pton(host.is_address6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

static bool is_listed(const struct http_guard *guard, struct host host)
{
	for (uint32_t i = 0; i < guard->count; i++)
		if (host_is(host, guard->names[i]))
			return true;
	return false;
}

/** Browsers resolve these names themselves (RFC 6761). */
static bool is_loopback_name(struct host host)
{
	static const char suffix[] = ".localhost";
	size_t size = sizeof(suffix) - 1;

	return host_is(host, "localhost") ||
	       (!host.is_address6 && host.size > size &&
		!strncasecmp(host.at + host.size - size, suffix, size));
}

static int add_name(struct http_guard *guard, const char *name, size_t size, struct error *err)
{
	if (guard->count == HTTP_GUARD_NAMES_MAX)
		return error_set(err, -EINVAL, "http-host: more than %d names",
				 HTTP_GUARD_NAMES_MAX);
	char *copy = strndup(name, size);
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	for (char *at = copy; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	guard->names[guard->count++] = copy;
	return 0;
}

static int add_names(struct http_guard *guard, const char *names, struct error *err)
{
	int rc = 0;

	for (const char *at = names; *at && rc == 0;) {
		size_t size = strcspn(at, ",");

		if (!size || size > HTTP_GUARD_NAME_BYTES_MAX || strspn(at, name_letters) < size)
			return error_set(err, -EINVAL,
					 "http-host: \"%.*s\" is not a host's name; write names "
					 "without scheme and port, with commas between",
					 (int)(size < 64 ? size : 64), at);
		rc = add_name(guard, at, size, err);
		at += size + (at[size] == ',');
	}
	return rc;
}

int http_guard_init(struct http_guard *guard, const char *address, const char *names,
		    struct error *err)
{
	struct host host;
	int rc = 0;

	*guard = (struct http_guard){ 0 };
	if (split_host(address, &host) && !host.is_address6)
		rc = add_name(guard, host.at, host.size, err);
	if (rc == 0 && names)
		rc = add_names(guard, names, err);
	if (rc < 0)
		http_guard_deinit(guard);
	return rc;
}

void http_guard_deinit(struct http_guard *guard)
{
	for (uint32_t i = 0; i < guard->count; i++)
		free(guard->names[i]);
	*guard = (struct http_guard){ 0 };
}

static bool refuse_host(const char *name, struct http_refusal *ret_refusal)
{
	ret_refusal->status = 421;
	ret_refusal->code = "misdirected_request";
	snprintf(
		ret_refusal->message, sizeof(ret_refusal->message),
		"\"%.100s\" is not a name of this collector; open it by its address, or restart it "
		"with --http-host and the name",
		name);
	return false;
}

static bool refuse_site(const char *header, const char *value, struct http_refusal *ret_refusal)
{
	ret_refusal->status = 403;
	ret_refusal->code = "cross_site";
	snprintf(ret_refusal->message, sizeof(ret_refusal->message),
		 "a page of another site sent this request (%s: %.100s); if that site is the "
		 "collector behind a proxy, restart the collector with --http-host and the site's "
		 "name",
		 header, value);
	return false;
}

/** Is it our own page's origin, or that of a name that the operator added? */
static bool origin_is_ours(const struct http_guard *guard, const struct http_caller *caller)
{
	const char *authority = strstr(caller->origin, "://");
	struct host host;

	if (!authority || (strncmp(caller->origin, "http://", 7) != 0 &&
			   strncmp(caller->origin, "https://", 8) != 0))
		return false;
	authority += 3;
	if (caller->host && strcasecmp(authority, caller->host) == 0)
		return true;
	return split_host(authority, &host) && is_listed(guard, host);
}

/** Links from other sites to the page and to exports are welcome: the other site cannot read them. */
static bool is_navigation(const struct http_caller *caller)
{
	return !caller->changes && caller->fetch_mode && caller->fetch_destination &&
	       strcmp(caller->fetch_mode, "navigate") == 0 &&
	       strcmp(caller->fetch_destination, "document") == 0;
}

static bool site_is_ours(const struct http_caller *caller)
{
	return !caller->fetch_site || strcmp(caller->fetch_site, "same-origin") == 0 ||
	       strcmp(caller->fetch_site, "none") == 0;
}

bool http_guard_admits(const struct http_guard *guard, const struct http_caller *caller,
		       struct http_refusal *ret_refusal)
{
	struct host host;

	// Only programs leave Host out.
	if (caller->host &&
	    (!split_host(caller->host, &host) ||
	     (!is_address(host) && !is_loopback_name(host) && !is_listed(guard, host))))
		return refuse_host(caller->host, ret_refusal);
	if (caller->origin && !origin_is_ours(guard, caller))
		return refuse_site("Origin", caller->origin, ret_refusal);
	if (!caller->origin && !site_is_ours(caller) && !is_navigation(caller))
		return refuse_site("Sec-Fetch-Site", caller->fetch_site, ret_refusal);
	// Our own page's scripts send Origin, which was checked.
	if (caller->changes && !caller->client && !caller->authorization && !caller->origin) {
		ret_refusal->status = 403;
		ret_refusal->code = "client_header_required";
		snprintf(ret_refusal->message, sizeof(ret_refusal->message),
			 "a request that changes something needs the header %s, with any value",
			 HTTP_CLIENT_HEADER);
		return false;
	}
	return true;
}
