// SPDX-License-Identifier: Apache-2.0
// Deletes what is stored of series.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdio.h>

#include "base/json_text.h"

enum { RETRY_FULL_S = 10 }; // a rewrite may have made room by then

static void refuse(struct http_response *response, const struct error *err, const char *field)
{
	if (err->code != -EAGAIN && err->code != -EROFS) {
		http_respond_failure(response, err, field);
		return;
	}
	http_respond_error(response, 503, err->code == -EAGAIN ? "overloaded" : "unavailable", "",
			   err->text);
	response->retry_after_s = RETRY_FULL_S;
}

/** Count what a deletion would find. */
static int count_series(struct http_api *api, const struct api_request *request,
			struct store_deletion *ret_deletion, struct error *err)
{
	struct store_selection *selection;
	int rc =
		store_select(api->store, &request->selector, NULL, request->range, &selection, err);

	if (rc < 0)
		return rc;
	*ret_deletion = (struct store_deletion){ .series = selection->series_count };
	store_selection_free(selection);
	return 0;
}

void http_handle_series_deletion(struct http_api *api, const struct api_request *request,
				 struct http_response *response)
{
	struct store_deletion deletion = { 0 };
	struct buffer *body = &response->body;
	struct error err = { 0 };
	int rc = http_check_selector(api, request, "delete", &err);

	if (rc == 0 && request->dry_run)
		rc = count_series(api, request, &deletion, &err);
	else if (rc == 0)
		rc = store_delete(api->store, &request->selector, request->range, &deletion, &err);
	if (rc < 0) {
		err.code = rc;
		refuse(response, &err, "query");
		return;
	}
	buffer_append_string(body, "{\"series\":");
	json_append_uint(body, deletion.series);
	buffer_append_string(body, ",\"partitions\":");
	json_append_uint(body, deletion.partitions);
	buffer_append_string(body,
			     request->dry_run ? ",\"dry_run\":true}\n" : ",\"dry_run\":false}\n");
	snprintf(response->audited, sizeof(response->audited), ",\"series\":%u,\"partitions\":%u",
		 deletion.series, deletion.partitions);
}
