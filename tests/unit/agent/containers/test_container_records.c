// SPDX-License-Identifier: Apache-2.0
// Containers by the files of Docker and Podman: what they write, and what a hostile image or a damaged disk makes of it.
#include "agent/containers/container_records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/test.h"

#define ID    "1111111111111111111111111111111111111111111111111111111111111111"
#define OTHER "2222222222222222222222222222222222222222222222222222222222222222"

/* As Docker 24 writes it, cut. */
#define DOCKER(name, image, labels)                                                              \
	"{\"StreamConfig\":{},\"State\":{\"Running\":true,\"Pid\":4711},\"ID\":\"" ID "\","      \
	"\"Created\":\"2024-05-02T10:00:00Z\",\"Managed\":false,\"Path\":\"nginx\",\"Args\":[]," \
	"\"Config\":{\"Hostname\":\"111111111111\",\"Env\":[\"SECRET=x\"],\"Image\":\"" image    \
	"\",\"Labels\":{" labels "}},\"Image\":\"sha256:abcd\",\"Name\":\"" name "\"}"
/* As Podman 4 does. */
#define PODMAN(names, metadata)                                                                 \
	"[{\"id\":\"" OTHER "\",\"names\":[\"other\"],\"metadata\":\"{}\"},{\"id\":\"" ID       \
	"\",\"names\":[" names "],\"image\":\"abcd\",\"layer\":\"ef\",\"metadata\":\"" metadata \
	"\",\"created\":\"2024-05-02T10:00:00Z\",\"flags\":{}}]"
#define PODMAN_OWN                                                                        \
	"{\\\"image-name\\\":\\\"localhost/shop/web:1.2\\\",\\\"image-id\\\":\\\"ab\\\"," \
	"\\\"name\\\":\\\"web\\\",\\\"created-at\\\":1714644000}"

static const struct {
	const char *what, *text;
	bool is_podman;
	int rc;
	const char *name, *service, *project, *version;
} cases[] = {
	{ "Docker", DOCKER("/web", "nginx:1.25", ""), false, 0, "web", "web", "", "1.25" },
	{ "Compose",
	  DOCKER("/shop-web-1", "registry:5000/web",
		 "\"com.docker.compose.service\":\"web\",\"com.docker.compose.project\":\"shop\""),
	  false, 0, "shop-web-1", "web", "shop", "" },
	{ "an image by its id", DOCKER("/web", "sha256:0123456789abcdef", ""), false, 0, "web",
	  "web", "", "sha256:0123456789ab" },
	{ "an image by tag and digest", DOCKER("/web", "web:2@sha256:0123", ""), false, 0, "web",
	  "web", "", "2" },
	{ "a name that is not for a terminal", DOCKER("/w\\u001b[31mb", "a:\\u0007", ""), false, 0,
	  "w?[31mb", "w?[31mb", "", "?" },
	{ "labels of other types",
	  DOCKER("/web", "a",
		 "\"com.docker.compose.service\":{\"a\":1},\"com.docker.compose.project\":7"),
	  false, 0, "web", "web", "", "" },
	{ "another container's file", "{\"ID\":\"" OTHER "\",\"Name\":\"/x\",\"Config\":{}}", false,
	  -ENOENT, "", "", "", "" },
	{ "no ID", "{\"Name\":\"/x\"}", false, -ENOENT, "", "", "", "" },
	{ "no members", "{\"ID\":\"" ID "\"}", false, 0, "", "", "", "" },
	{ "a list", "[]", false, -ENOENT, "", "", "", "" },
	{ "cut off", "{\"ID\":\"" ID, false, -EBADMSG, "", "", "", "" },
	{ "nothing", "", false, -EBADMSG, "", "", "", "" },
	{ "Podman", PODMAN("\"web\"", PODMAN_OWN), true, 0, "web", "web", "", "1.2" },
	{ "Podman, without names", PODMAN("", PODMAN_OWN), true, 0, "web", "web", "", "1.2" },
	{ "Podman, metadata that is none", PODMAN("\"web\"", "{{{"), true, 0, "web", "web", "",
	  "" },
	{ "Podman, not in it", "[{\"id\":\"" OTHER "\"}]", true, -ENOENT, "", "", "", "" },
	{ "Podman, no list", "{\"id\":\"" ID "\"}", true, -EBADMSG, "", "", "", "" },
	{ "Podman, members of other types", "[1,null,{\"id\":7},{\"id\":\"" ID "\",\"names\":7}]",
	  true, 0, "", "", "", "" },
};

TEST(reads_what_runtimes_write)
{
	for EACH (row, cases) {
		struct container_record record = { 0 };
		int rc = (row->is_podman ? container_record_read_podman
					 : container_record_read_docker)(
			row->text, strlen(row->text), ID, NULL, &record);

		EXPECT_EQ(row->rc, rc, row->what);
		EXPECT_STR(row->name, record.name, row->what);
		EXPECT_STR(row->service, record.service, row->what);
		EXPECT_STR(row->project, record.project, row->what);
		EXPECT_STR(row->version, record.version, row->what);
		container_record_deinit(&record);
	}
}

TEST(a_record_has_bounds)
{
	struct container_record record = { 0 };
	size_t size = 1 << 20;
	char *text = malloc(size + 1);
	int length;

	assert_non_null(text);
	length = sprintf(text, "{\"ID\":\"" ID "\",\"Name\":\"/");
	memset(text + length, 'n', 1000);
	strcpy(text + length + 1000, "\"}");
	assert_int_equal(0, container_record_read_docker(text, strlen(text), ID, NULL, &record));
	EXPECT_EQ(CONTAINER_NAME_BYTES - 1, strlen(record.name), "name");
	container_record_deinit(&record);
	memset(text, '[', size); // nested lists
	EXPECT_EQ(-EBADMSG, container_record_read_podman(text, size, ID, NULL, &record), "nested");
	size = 1; // the text's first bracket
	while (size < (1 << 20) - 8)
		size += (size_t)sprintf(text + size, "[],");
	size += (size_t)sprintf(text + size, "1]");
	EXPECT_EQ(-EBADMSG, container_record_read_podman(text, size, ID, NULL, &record),
		  "too much memory");
	free(text);
}

/* ---- files ---------------------------------------------------------------------------------- */

struct fixture {
	char folder[64], docker[96], podman[96];
	struct container_records *records;
};

static void begin(struct fixture *fixture)
{
	char path[256];

	strcpy(fixture->folder, "/tmp/cairn-containers-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	sprintf(fixture->docker, "%s/docker", fixture->folder);
	sprintf(fixture->podman, "%s/podman", fixture->folder);
	mkdir(fixture->docker, 0700);
	mkdir(fixture->podman, 0700);
	sprintf(path, "%s/containers", fixture->docker);
	mkdir(path, 0700);
	sprintf(path, "%s/containers/" ID, fixture->docker);
	mkdir(path, 0700);
	sprintf(path, "%s/overlay-containers", fixture->podman);
	mkdir(path, 0700);
	const struct container_folders folders = { fixture->docker, fixture->podman };

	fixture->records = container_records_new(&folders, NULL);
	assert_non_null(fixture->records);
}

static void finish(struct fixture *fixture)
{
	char command[128];

	container_records_free(fixture->records);
	sprintf(command, "rm -rf %s", fixture->folder);
	assert_int_equal(0, system(command));
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void rename_folder(const char *folder, const char *from, const char *to)
{
	char path[512], other[512];

	snprintf(path, sizeof(path), "%s/%s", folder, from);
	snprintf(other, sizeof(other), "%s/%s", folder, to);
	assert_int_equal(0, rename(path, other));
}

static const char *find(struct fixture *fixture, const char *id, uint64_t now_ns)
{
	const struct container_record *record =
		container_records_find(fixture->records, id, now_ns);

	return record ? record->name : "(none)";
}

#define DOCKER_FILE "containers/" ID "/config.v2.json"

TEST(finds_a_container_in_either_folder)
{
	struct fixture fixture;
	struct container_records_stats stats;

	begin(&fixture);
	EXPECT_STR("(none)", find(&fixture, ID, 1), "no file");
	container_records_read_stats(fixture.records, &stats);
	EXPECT_EQ(0, stats.unreadable, "no file is no failure");
	put(fixture.docker, DOCKER_FILE, DOCKER("/one", "a:1", ""));
	put(fixture.podman, "overlay-containers/volatile-containers.json", PODMAN("\"two\"", "{}"));
	EXPECT_STR("one", find(&fixture, ID, CONTAINER_RECORD_NS + 1), "Docker's");
	EXPECT_STR("other", find(&fixture, OTHER, 1), "Podman's");
	rename_folder(fixture.podman, "overlay-containers", "zfs-containers");
	EXPECT_STR("other", find(&fixture, OTHER, CONTAINER_RECORD_NS + 1), "of ZFS");
	container_records_read_stats(fixture.records, &stats);
	EXPECT_EQ(3, stats.found, "found");
	finish(&fixture);
}

TEST(reads_a_file_again_after_a_minute)
{
	struct fixture fixture;

	begin(&fixture);
	put(fixture.docker, DOCKER_FILE, DOCKER("/one", "a:1", ""));
	EXPECT_STR("one", find(&fixture, ID, 5), "first");
	put(fixture.docker, DOCKER_FILE, DOCKER("/renamed", "a:1", ""));
	EXPECT_STR("one", find(&fixture, ID, CONTAINER_RECORD_NS + 4), "kept");
	EXPECT_STR("renamed", find(&fixture, ID, CONTAINER_RECORD_NS + 5), "again");
	finish(&fixture);
}

TEST(ids_are_no_paths)
{
	struct fixture fixture;

	begin(&fixture);
	put(fixture.docker, "config.v2.json", "{\"ID\":\"..\",\"Name\":\"/out\"}");
	EXPECT_STR("(none)", find(&fixture, "..", 1), "dots");
	EXPECT_STR("(none)", find(&fixture, "", 1), "empty");
	EXPECT_STR("(none)", find(&fixture, "a/../b", 1), "slashes");
	assert_null(container_records_find(NULL, ID, 1));
	finish(&fixture);
}

TEST(files_of_others_are_not_read)
{
	struct fixture fixture;
	struct container_records_stats stats;
	char path[256], target[256];

	begin(&fixture);
	put(fixture.docker, DOCKER_FILE, DOCKER("/one", "a:1", ""));
	snprintf(path, sizeof(path), "%s/" DOCKER_FILE, fixture.docker);
	if (geteuid() == 0) {
		assert_int_equal(0, chown(path, 4711, 4711));
		EXPECT_STR("(none)", find(&fixture, ID, 1), "another user's");
	}
	snprintf(target, sizeof(target), "%s/target", fixture.folder);
	unlink(path);
	put(fixture.folder, "target", DOCKER("/one", "a:1", ""));
	assert_int_equal(0, symlink(target, path));
	EXPECT_STR("(none)", find(&fixture, ID, CONTAINER_RECORD_NS + 1), "a link");
	unlink(path);
	assert_int_equal(0, mkfifo(path, 0600));
	EXPECT_STR("(none)", find(&fixture, ID, 2 * CONTAINER_RECORD_NS + 1), "a pipe");
	unlink(path);
	put(fixture.docker, DOCKER_FILE, "");
	assert_int_equal(0, truncate(path, CONTAINER_FILE_BYTES_MAX + 1));
	EXPECT_STR("(none)", find(&fixture, ID, 3 * CONTAINER_RECORD_NS + 1), "too large");
	container_records_read_stats(fixture.records, &stats);
	EXPECT_EQ(geteuid() == 0 ? 4 : 3, stats.unreadable, "unreadable");
	finish(&fixture);
}

TEST(keeps_a_bounded_number)
{
	struct fixture fixture;
	char id[65];

	begin(&fixture);
	for (int i = 0; i < CONTAINER_RECORDS_MAX * 3; i++) {
		snprintf(id, sizeof(id), "%064x", i);
		EXPECT_STR("(none)", find(&fixture, id, 1), "unknown");
	}
	put(fixture.docker, DOCKER_FILE, DOCKER("/one", "a:1", ""));
	EXPECT_STR("one", find(&fixture, ID, 1), "after many others");
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(reads_what_runtimes_write), cmocka_unit_test(a_record_has_bounds),
	  cmocka_unit_test(finds_a_container_in_either_folder),
	  cmocka_unit_test(reads_a_file_again_after_a_minute), cmocka_unit_test(ids_are_no_paths),
	  cmocka_unit_test(files_of_others_are_not_read), cmocka_unit_test(keeps_a_bounded_number))
