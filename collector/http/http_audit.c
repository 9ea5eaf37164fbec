// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json_text.h"

struct audit {
	char *path; // NULL: standard error
	struct metrics *metrics;
	pthread_mutex_t lock; // guards the fields below
	int fd;
	uint64_t bytes; // of the file
};

static int open_file(struct audit *audit)
{
	struct stat status;
	int fd = open(audit->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	audit->fd = fd;
	audit->bytes = fstat(fd, &status) ? 0 : (uint64_t)status.st_size;
	return 0;
}

int audit_open(const char *path, struct metrics *metrics, struct audit **ret_audit,
	       struct error *err)
{
	struct audit *audit = calloc(1, sizeof(*audit));
	int rc = 0;

	if (!audit)
		return error_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&audit->lock, NULL);
	audit->metrics = metrics;
	audit->fd = STDERR_FILENO;
	if (strcmp(path, "stderr") != 0) {
		audit->path = strdup(path);
		rc = audit->path ? open_file(audit) : -ENOMEM;
	}
	if (rc) {
		audit->fd = STDERR_FILENO;
		audit_close(audit);
		return error_errno(err, rc, "--audit: %s", path);
	}
	*ret_audit = audit;
	return 0;
}

void audit_close(struct audit *audit)
{
	if (!audit)
		return;
	if (audit->path && audit->fd >= 0)
		close(audit->fd);
	pthread_mutex_destroy(&audit->lock);
	free(audit->path);
	free(audit);
}

static void append_time(struct buffer *line)
{
	struct timespec now;
	struct tm utc;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	buffer_printf(line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\"",
		      utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
		      utc.tm_sec, now.tv_nsec / 1000000);
}

static void append_field(struct buffer *line, const char *name, const char *value)
{
	buffer_printf(line, ",\"%s\":", name);
	json_append_string(line, value ? value : "");
}

static void append_parameters(struct buffer *line, const struct http_request *request)
{
	buffer_append_string(line, ",\"parameters\":{");
	for (uint32_t i = 0; i < request->parameter_count; i++) {
		buffer_append_string(line, i ? "," : "");
		json_append_string(line, request->parameters[i].name);
		buffer_append_byte(line, ':');
		json_append_string(line, request->parameters[i].value);
	}
	buffer_append_byte(line, '}');
}

/** What a request shows (headers, cookies) is not in the line: it holds secrets. */
static void format_line(struct buffer *line, const struct http_request *request,
			const struct http_response *response, bool with_parameters)
{
	static const char *const methods[] = {
		[HTTP_GET] = "GET",
		[HTTP_PUT] = "PUT",
		[HTTP_POST] = "POST",
		[HTTP_DELETE] = "DELETE",
	};

	append_time(line);
	append_field(line, "who", request->identity.key);
	append_field(line, "tenant", request->identity.tenant);
	append_field(line, "address", request->credentials.address);
	append_field(line, "method", methods[request->method]);
	append_field(line, "path", request->path);
	if (with_parameters)
		append_parameters(line, request);
	buffer_printf(line, ",\"status\":%d%s}\n", response->status, response->audited);
}

static int rotate(struct audit *audit)
{
	char old[PATH_MAX];

	if (snprintf(old, sizeof(old), "%s.1", audit->path) >= (int)sizeof(old))
		return -ENAMETOOLONG;
	if (rename(audit->path, old))
		return -errno;
	close(audit->fd);
	audit->fd = -1;
	return open_file(audit);
}

static int write_line(struct audit *audit, const struct buffer *line)
{
	int rc = 0;

	if (audit->path && audit->fd < 0)
		rc = open_file(audit);
	else if (audit->path && audit->bytes + line->size > AUDIT_FILE_BYTES_MAX)
		rc = rotate(audit);
	if (rc)
		return rc;
	audit->bytes += line->size;
	return write(audit->fd, line->bytes, line->size) == (ssize_t)line->size ? 0 : -EIO;
}

void audit_write(struct audit *audit, const struct http_request *request,
		 const struct http_response *response)
{
	_cleanup_(buffer_deinit) struct buffer line = { .size_max = AUDIT_LINE_BYTES_MAX };

	format_line(&line, request, response, true);
	if (line.rc) { // parameters of a hostile size: the act is still on record
		buffer_clear(&line);
		format_line(&line, request, response, false);
	}
	pthread_mutex_lock(&audit->lock);
	int rc = line.rc ? line.rc : write_line(audit, &line);
	pthread_mutex_unlock(&audit->lock);
	if (rc)
		metrics_add(audit->metrics, METRIC_AUDIT_ERRORS, 1);
}
