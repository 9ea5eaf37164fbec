// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/secret_file.h"
#include "base/version.h"

enum { CONNECT_TIMEOUT_MS = 5000 };

void http_response_deinit(struct http_response *response)
{
	buffer_deinit(&response->body);
}

void http_security_deinit(struct http_security *security)
{
	free(security->tls_ca);
	free(security->tls_cert);
	free(security->tls_key);
	free(security->token_file);
	*security = (struct http_security){ 0 };
}

static size_t receive(char *bytes, size_t size, size_t count, void *context)
{
	struct buffer *body = context;

	buffer_append(body, bytes, size * count);
	return body->rc ? 0 : size * count;
}

static int report(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
		  curl_off_t up)
{
	const struct http_request *request = context;

	(void)down_total;
	(void)up_total;
	request->progress(request->context, (uint64_t)(down + up));
	return 0;
}

static void set_up(CURL *curl, const struct http_request *request, struct buffer *body, char *words)
{
	curl_easy_setopt(curl, CURLOPT_URL, request->url);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "cairn/" CAIRN_VERSION);
	curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, ""); // all that libcurl can undo
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
	if (request->progress) {
		curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, report);
		curl_easy_setopt(curl, CURLOPT_XFERINFODATA, request);
	}
}

static bool is_private(const char *url)
{
	static const char http[] = "http://";
	char address[256];

	if (strncasecmp(url, http, strlen(http)) != 0)
		return true;
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(url + strlen(http), "/?#"),
		 url + strlen(http));
	// Without a port the last colon may be an IPv6 address's.
	if (!strrchr(address, ':') || address[strlen(address) - 1] == ']')
		strncat(address, ":80", sizeof(address) - strlen(address) - 1);
	return !strchr(address, '@') && address_is_local(address);
}

static int set_up_token(const struct http_request *request, struct curl_slist **ret_headers,
			struct error *err)
{
	const struct http_security *security = request->security;
	char secret[SECRET_BYTES_MAX], header[SECRET_BYTES_MAX + 32];

	if (!is_private(request->url) && !security->insecure)
		return error_set(err, -EPERM,
				 "--token-file: everybody on the way to %.100s could read the "
				 "token; use https, or --insecure",
				 request->url);
	int rc = secret_file_read(security->token_file, secret, err);
	if (!rc) {
		snprintf(header, sizeof(header), "Authorization: Bearer %s", secret);
		*ret_headers = curl_slist_append(NULL, header);
		rc = *ret_headers ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	secret_erase(secret, sizeof(secret));
	secret_erase(header, sizeof(header));
	return rc;
}

static int check_file(const char *flag, const char *path, struct error *err)
{
	if (!path || !access(path, R_OK))
		return 0;
	return error_errno(err, -errno, "%s: %s", flag, path);
}

static int check_files(const struct http_security *security, struct error *err)
{
	bool has_ca = security->tls_ca && strcmp(security->tls_ca, "system") != 0;
	int rc = has_ca ? check_file("--tls-ca", security->tls_ca, err) : 0;

	if (!rc)
		rc = check_file("--tls-cert", security->tls_cert, err);
	return rc ? rc : check_file("--tls-key", security->tls_key, err);
}

static int set_up_security(CURL *curl, const struct http_request *request,
			   struct curl_slist **ret_headers, struct error *err)
{
	const struct http_security *security = request->security;

	if (!security)
		return 0;
	if (!security->tls_cert != !security->tls_key)
		return error_set(err, -EINVAL, "--tls-cert and --tls-key belong together");
	int rc = check_files(security, err);
	if (rc)
		return rc;
	if (security->tls_ca && strcmp(security->tls_ca, "system") != 0)
		curl_easy_setopt(curl, CURLOPT_CAINFO, security->tls_ca);
	if (security->tls_cert) {
		curl_easy_setopt(curl, CURLOPT_SSLCERT, security->tls_cert);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, security->tls_key);
	}
	return security->token_file ? set_up_token(request, ret_headers, err) : 0;
}

static bool has_scheme(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

/* What is wrong with the command line: nothing was asked. NULL: that is not it. */
static const char *mistake_of(const struct http_request *request, CURLcode code)
{
	switch (code) {
	case CURLE_URL_MALFORMAT:
		return "not a URL";
	case CURLE_UNSUPPORTED_PROTOCOL: // also of an answer that is not HTTP
		return has_scheme(request->url, "http://") || has_scheme(request->url, "https://")
			       ? NULL
			       : "not a URL of http or https";
	case CURLE_SSL_CACERT_BADFILE:
		return "--tls-ca: no PEM file of certificates";
	case CURLE_SSL_CERTPROBLEM:
		return "--tls-cert or --tls-key: not a PEM file, or not of each other";
	default:
		return NULL;
	}
}

/* What to try against a failure whose words do not say it. "": nothing. */
static const char *advice_of(const struct http_request *request, CURLcode code)
{
	const struct http_security *security = request->security;

	switch (code) {
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return has_scheme(request->url, "http://") ? "; it may speak TLS: try https://"
							   : "";
	case CURLE_SSL_CONNECT_ERROR: // also of a client certificate that GnuTLS cannot read
		return security && security->tls_cert ? "" : "; it may not speak TLS: try http://";
	case CURLE_PEER_FAILED_VERIFICATION:
		return security && !security->tls_ca
			       ? "; if its CA is your own, name it with --tls-ca"
			       : "";
	default:
		return "";
	}
}

static int errno_of(CURLcode code, bool has_advice)
{
	if (code == CURLE_OPERATION_TIMEDOUT)
		return -ETIMEDOUT;
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
		return -ECONNREFUSED;
	return has_advice || code == CURLE_PEER_FAILED_VERIFICATION ? -EPROTO : -EIO;
}

static int describe_failure(const struct http_request *request, CURLcode code, const char *words,
			    struct error *err)
{
	const char *mistake = mistake_of(request, code);
	const char *advice = advice_of(request, code);

	if (!*words)
		words = curl_easy_strerror(code);
	if (mistake)
		return error_set(err, -EINVAL, "%.200s: %s (%s)", request->url, mistake, words);
	return error_set(err, errno_of(code, *advice), "%s%s", words, advice);
}

/* A body to send, and how much of it has gone. */
struct upload {
	int fd;
	uint64_t bytes;
	uint64_t sent;
};

static size_t send_body(char *bytes, size_t size, size_t count, void *context)
{
	struct upload *upload = context;
	ssize_t got = pread(upload->fd, bytes, size * count, (off_t)upload->sent);

	if (got < 0)
		return CURL_READFUNC_ABORT;
	upload->sent += (uint64_t)got;
	return (size_t)got;
}

static void set_up_upload(CURL *curl, struct upload *upload)
{
	curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)upload->bytes);
	curl_easy_setopt(curl, CURLOPT_READFUNCTION, send_body);
	curl_easy_setopt(curl, CURLOPT_READDATA, upload);
}

/* What a request changes. */
struct change {
	const char *method;
	struct upload *upload; // of a PUT; NULL: no body
	const char *type;      // of a POST's body; NULL: none
	const void *bytes;
	size_t size;
};

static int set_up_body(CURL *curl, const struct change *change, struct curl_slist **headers,
		       struct error *err)
{
	char type[128];

	snprintf(type, sizeof(type), "Content-Type: %s", change->type);
	struct curl_slist *longer = curl_slist_append(*headers, type);
	if (!longer)
		return error_set(err, -ENOMEM, "out of memory");
	*headers = longer;
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, change->bytes);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)change->size);
	return 0;
}

/* A collector refuses to change anything without this header: pages of other sites cannot send it. */
static int set_up_change(CURL *curl, const struct change *change, struct curl_slist **headers,
			 struct error *err)
{
	struct curl_slist *longer = curl_slist_append(*headers, "Cairn-Client: cairn");

	if (!longer)
		return error_set(err, -ENOMEM, "out of memory");
	*headers = longer;
	if (change->upload)
		set_up_upload(curl, change->upload);
	else if (change->type)
		return set_up_body(curl, change, headers, err);
	else
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, change->method);
	return 0;
}

static int perform(CURL *curl, const struct http_request *request, struct http_response *response,
		   struct error *err)
{
	char words[CURL_ERROR_SIZE] = "";

	response->body.size_max = HTTP_BODY_BYTES_MAX;
	set_up(curl, request, &response->body, words);
	CURLcode code = curl_easy_perform(curl);
	if (response->body.rc == -EFBIG)
		return error_set(err, -EFBIG, "the answer is larger than %d MiB",
				 HTTP_BODY_BYTES_MAX >> 20);
	if (code != CURLE_OK)
		return describe_failure(request, code, words, err);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response->status);
	return 0;
}

/* @change: NULL to GET. */
static int exchange(const struct http_request *request, const struct change *change,
		    struct http_response *response, struct error *err)
{
	CURL *curl = curl_easy_init();

	struct curl_slist *headers = NULL;

	if (!curl)
		return error_set(err, -ENOMEM, "libcurl cannot be set up");

	int rc = set_up_security(curl, request, &headers, err);
	if (rc)
		rc = -EINVAL; // of the command line, whatever the files' errno
	if (!rc && change)
		rc = set_up_change(curl, change, &headers, err);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	if (!rc)
		rc = perform(curl, request, response, err);
	curl_easy_cleanup(curl);
	if (headers)
		secret_erase(headers->data, strlen(headers->data));
	curl_slist_free_all(headers);
	return rc;
}

int http_get(const struct http_request *request, struct http_response *response, struct error *err)
{
	return exchange(request, NULL, response, err);
}

int http_put(const struct http_request *request, int body_fd, uint64_t body_bytes,
	     struct http_response *response, struct error *err)
{
	struct upload upload = { .fd = body_fd, .bytes = body_bytes };
	const struct change put = { .method = "PUT", .upload = &upload };

	return exchange(request, &put, response, err);
}

int http_delete(const struct http_request *request, struct http_response *response,
		struct error *err)
{
	const struct change deletion = { .method = "DELETE" };

	return exchange(request, &deletion, response, err);
}

int http_post(const struct http_request *request, struct http_response *response, struct error *err)
{
	const struct change post = { .method = "POST" };

	return exchange(request, &post, response, err);
}

int http_post_body(const struct http_request *request, const char *type, const void *bytes,
		   size_t size, struct http_response *response, struct error *err)
{
	const struct change post = { .method = "POST", .type = type, .bytes = bytes, .size = size };

	return exchange(request, &post, response, err);
}

static bool is_unreserved(unsigned char byte)
{
	// RFC 3986, section 2.3; isalnum() would follow the locale.
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || (byte && strchr("-._~", byte));
}

void http_append_parameter(struct buffer *url, const char *name, const char *value)
{
	if (!value)
		return;
	buffer_append_byte(url, strchr(buffer_string(url), '?') ? '&' : '?');
	buffer_append_string(url, name);
	buffer_append_byte(url, '=');
	for (const char *at = value; *at; at++) {
		if (is_unreserved((unsigned char)*at))
			buffer_append_byte(url, (uint8_t)*at);
		else
			buffer_printf(url, "%%%02X", (unsigned char)*at);
	}
}
