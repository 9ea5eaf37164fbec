// SPDX-License-Identifier: Apache-2.0
// cairn upload: send debug files to a collector, which names the frames that agents could not, and source files, whose lines it
// shows.

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/symbols/debug_file.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/symbols/source_archive.h"
#include "cli/api_error.h"
#include "cli/api_request.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/json_line.h"
#include "cli/progress.h"
#include "cli/source_pack.h"

struct upload_options {
	char *collector_http;
	uint64_t timeout_ns;
	struct http_security security;
	bool json, missing_only, sources;
	char *at, *for_service, *for_version; // of sources
	json_t *missing;                      // of --missing-only: by build id
	int first_file;
};

static const char notes[] =
	"FILE is an executable or library with symbols, or a separate debug file. It needs a\n"
	"build id, which matches it to the stripped file. Frames sampled before the upload\n"
	"get names, too. Of a folder all such files are uploaded: a build's output, or the root\n"
	"folder of a container's image; links are not followed. --missing-only asks the collector\n"
	"first, and uploads what the samples of the last day lack.\n"
	"\n"
	"With --sources the collector gets the source code below each FOLDER, by its suffixes;\n"
	"hidden files, links and files above 4 MiB are left out. The lines of a function then\n"
	"show their text. --for-version is the label version of what runs: without it nobody\n"
	"knows whether lines have moved. Whoever may read the tenant's profiles may read them.\n"
	"\n"
	"  cairn upload build/server\n"
	"  cairn upload --missing-only build/\n"
	"  cairn upload /usr/lib/debug/.build-id/*/*.debug\n"
	"  cairn upload --sources --for-service shop --for-version 1.4 --at /srv/shop .\n";

static int parse(int argc, char **argv, struct upload_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "collector-http", 0, CONFIG_STRING, &options->collector_http,
		  "http://127.0.0.1:7070", 0, 0, "URL", "address of the collector's HTTP API" },
		{ "timeout", 0, CONFIG_DURATION, &options->timeout_ns, "10m", 100 * NS_PER_MS,
		  24 * 3600 * NS_PER_SECOND, "TIME", "time limit per file" },
		HTTP_SECURITY_OPTIONS(&options->security),
		{ "missing-only", 0, CONFIG_BOOL, &options->missing_only, NULL, 0, 0, NULL,
		  "upload only what the collector lacks symbols of" },
		{ "sources", 0, CONFIG_BOOL, &options->sources, NULL, 0, 0, NULL,
		  "upload source code instead of debug files" },
		{ "for-service", 0, CONFIG_STRING, &options->for_service, "", 0, 0, "NAME",
		  "with --sources: show it for this service only" },
		{ "for-version", 0, CONFIG_STRING, &options->for_version, "", 0, 0, "VERSION",
		  "with --sources: the version that it is" },
		{ "at", 0, CONFIG_STRING, &options->at, NULL, 0, 0, "PATH",
		  "with --sources: where FOLDER lies where it runs" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print a JSON object per file" },
	};
	const struct config_program program = {
		.name = "cairn upload",
		.summary =
			"Upload debug files to a collector, so that stripped code gets names, or "
			"sources.",
		.usage = "cairn upload [--missing-only] FILE|FOLDER...\n"
			 "       cairn upload --sources [--for-version VERSION] FOLDER...",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int rc = config_parse(&program, argc, argv, ret_outcome, &options->first_file, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (options->first_file >= argc)
		return error_set(err, -EINVAL, "FILE is missing; see `cairn upload --help`");
	if (!options->sources && (options->at || *options->for_service || *options->for_version))
		return error_set(err, -EINVAL,
				 "--at, --for-service and --for-version go with --sources");
	if (options->sources && options->missing_only)
		return error_set(err, -EINVAL,
				 "--missing-only is of debug files, not of --sources");
	if (!source_name_is_sound(options->for_service) ||
	    !source_name_is_sound(options->for_version))
		return error_set(err, -EINVAL,
				 "--for-service, --for-version: at most %d bytes, without control "
				 "characters",
				 SOURCE_NAME_BYTES_MAX);
	return 0;
}

/* The upload of one file. */
struct sending {
	const char *path;
	uint64_t started_ns;
	uint64_t bytes;
};

static void show_progress(void *context, uint64_t bytes)
{
	const struct sending *sending = context;
	uint64_t waited_ns = clock_monotonic_ns() - sending->started_ns;
	char detail[64];

	if (waited_ns < NS_PER_SECOND)
		return;
	snprintf(detail, sizeof(detail), "%llu of %llu MiB", (unsigned long long)(bytes >> 20),
		 (unsigned long long)(sending->bytes >> 20));
	progress_draw("uploading", waited_ns, 0, detail);
}

/* Put it where @api, "debug-files" or "sources", has files by @id. */
static int send_file(const struct upload_options *options, const char *api, const char *id,
		     const char *path, int fd, uint64_t bytes, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct sending sending = { path, clock_monotonic_ns(), bytes };
	size_t length = strlen(options->collector_http);
	struct error cause = { 0 };

	while (length && options->collector_http[length - 1] == '/')
		length--;
	buffer_append(&url, options->collector_http, length);
	buffer_printf(&url, "/api/v1/%s/%s", api, id);
	const struct http_request request = {
		.url = buffer_string(&url),
		.security = &options->security,
		.timeout_ms = (uint32_t)(options->timeout_ns / NS_PER_MS),
		.progress = progress_is_shown() ? show_progress : NULL,
		.context = &sending,
	};
	int rc = http_put(&request, fd, bytes, &response, &cause);
	progress_clear();
	if (rc)
		return api_error_no_answer(options->collector_http, rc, &cause, err);
	return response.status == 201 ? 0 : api_error_read(&response, err);
}

static int upload(const struct upload_options *options, const char *path, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char build_id[BUILD_ID_TEXT_BYTES];
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return error_errno(err, -errno, "cannot be read");
	if (!S_ISREG(status.st_mode) || debug_file_read_build_id(fd, build_id))
		return error_set(err, -EINVAL,
				 "not an ELF file with a build id; link it with --build-id");
	int rc = send_file(options, "debug-files", build_id, path, fd, (uint64_t)status.st_size,
			   err);
	if (!rc && options->json)
		json_line_print(json_pack("{s:s, s:s, s:I}", "file", path, "build_id", build_id,
					  "bytes", (json_int_t)status.st_size));
	else if (!rc)
		printf("%s: %s\n", path, build_id);
	return rc;
}

// ---- folders ----------------------------------------------------------------------------------

/* What the collector can name frames by: else it would refuse the file. */
static bool has_symbols(int fd)
{
	struct elf elf = { .fd = fd };
	Elf64_Shdr section;
	struct stat status;

	if (fstat(fd, &status))
		return false;
	elf.size = (uint64_t)status.st_size;
	if (elf_read(&elf, 0, &elf.header, sizeof(elf.header)))
		return false;
	return elf_find_section(&elf, ".symtab", &section) == 0 ||
	       elf_find_section(&elf, ".debug_info", &section) == 0 ||
	       elf_find_section(&elf, ".gnu_debugdata", &section) == 0;
}

static bool is_wanted(const struct upload_options *options, const char *path, bool is_of_folder)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char build_id[BUILD_ID_TEXT_BYTES];

	if (fd < 0 || debug_file_read_build_id(fd, build_id))
		return !is_of_folder; // which says what is wrong
	if (is_of_folder && !has_symbols(fd))
		return false;
	return !options->missing || json_object_get(options->missing, build_id);
}

static int upload_file(const struct upload_options *options, const char *path, bool is_of_folder)
{
	struct error err = { 0 };

	if (!is_wanted(options, path, is_of_folder) || !upload(options, path, &err))
		return EXIT_OK;
	fprintf(stderr, "cairn upload: %s: %s\n", path, err.text);
	return EXIT_FAILED;
}

/* Goes on after a file that failed. */
static int upload_tree(const struct upload_options *options, char *path)
{
	char *const paths[] = { path, NULL };
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	int exit_code = EXIT_OK;
	FTSENT *entry;

	while (tree && (entry = fts_read(tree))) {
		bool is_named = entry->fts_level == FTS_ROOTLEVEL;

		if (entry->fts_info == FTS_F ||
		    (is_named && entry->fts_info != FTS_D && entry->fts_info != FTS_DP)) {
			if (upload_file(options, entry->fts_path, !is_named))
				exit_code = EXIT_FAILED;
		} else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR) {
			fprintf(stderr, "cairn upload: %s: %s\n", entry->fts_path,
				strerror(entry->fts_errno));
			exit_code = EXIT_FAILED;
		}
	}
	if (!tree) {
		fprintf(stderr, "cairn upload: %s: %s\n", path, strerror(errno));
		return EXIT_FAILED;
	}
	fts_close(tree);
	return exit_code;
}

static int pack_and_send(const struct upload_options *options, const char *folder,
			 struct error *err)
{
	const struct source_pack_options wanted = {
		.folder = folder,
		.at = options->at,
		.service = options->for_service,
		.version = options->for_version,
	};
	struct source_pack pack;
	int rc = source_pack(&wanted, &pack, err);

	if (rc)
		return rc;
	_cleanup_close_ int fd = pack.fd;
	rc = send_file(options, "sources", pack.id, folder, fd, pack.bytes, err);
	if (!rc && options->json)
		json_line_print(json_pack("{s:s, s:s, s:I, s:I}", "folder", folder, "id", pack.id,
					  "files", (json_int_t)pack.file_count, "bytes",
					  (json_int_t)pack.bytes));
	else if (!rc)
		printf("%s: %u files, %s\n", folder, pack.file_count, pack.id);
	if (!rc && pack.too_large)
		fprintf(stderr, "cairn upload: %s: left out %u files of more than %d MiB\n", folder,
			pack.too_large, SOURCE_FILE_BYTES_MAX >> 20);
	return rc;
}

static int upload_sources(const struct upload_options *options, const char *folder)
{
	struct error err = { 0 };

	if (!pack_and_send(options, folder, &err))
		return EXIT_OK;
	fprintf(stderr, "cairn upload: %s: %s\n", folder, err.text);
	return EXIT_FAILED;
}

/* Ask which build ids have frames without names. */
static int ask_missing(struct upload_options *options, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct api_request request = {
		.from = (char *)"now-1d",
		.to = (char *)"now",
		.collector_http = options->collector_http,
		.timeout_ns = options->timeout_ns,
		.security = options->security,
		.selector = "",
	};
	const json_t *file;
	size_t i;

	api_request_begin_url(&request, "/api/v1/symbols/missing", &url);
	http_append_parameter(&url, "limit", "10000");
	int rc = api_request_send(&request, &url, &response, err);
	if (rc)
		return rc;
	json_t *root = json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
	options->missing = json_object();
	json_array_foreach(json_object_get(root, "files"), i, file)
	{
		if (!json_is_true(json_object_get(file, "uploaded")))
			json_object_set_new(options->missing, json_text_of(file, "build_id"),
					    json_true());
	}
	bool is_answer = json_is_array(json_object_get(root, "files")) && options->missing;
	json_decref(root);
	return is_answer ? 0
			 : error_set(err, -EBADMSG,
				     "%s did not answer with a list; is it a cairn-collector?",
				     options->collector_http);
}

int cmd_upload(int argc, char **argv)
{
	struct upload_options options = { .first_file = argc };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int exit_code = EXIT_OK;
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (rc) {
		fprintf(stderr, "cairn upload: %s\n", err.text);
		exit_code = EXIT_USAGE;
	}
	if (!rc && outcome == CONFIG_RUN && options.missing_only &&
	    (rc = ask_missing(&options, &err))) {
		fprintf(stderr, "cairn upload: %s\n", err.text);
		exit_code = EXIT_FAILED;
	}
	for (int i = options.first_file; !rc && outcome == CONFIG_RUN && i < argc; i++)
		if (options.sources ? upload_sources(&options, argv[i])
				    : upload_tree(&options, argv[i]))
			exit_code = EXIT_FAILED;
	json_decref(options.missing);
	free(options.collector_http);
	free(options.at);
	free(options.for_service);
	free(options.for_version);
	http_security_deinit(&options.security);
	return exit_code;
}
