// SPDX-License-Identifier: Apache-2.0
#include "cli/source_pack.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/symbols/source_archive.h"
#include "tests/test.h"

/** A folder with source code and much else. */
static void make_folder(char folder[40])
{
	char command[512];

	strcpy(folder, "/tmp/cairn-pack-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p app/z .git big && printf 'x = 1\\n' > app/model.py && "
		 "printf 'int f;' > app/z/a.c && printf s > .git/a.py && printf s > .env && "
		 "printf s > key.pem && ln -s /etc/passwd link.py && mkfifo fifo.c && "
		 "truncate -s 5M big/generated.c && : > run.py",
		 folder);
	assert_int_equal(0, system(command));
}

static void remove_folder(const char *folder)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

static void expect_files(const struct source_pack_options *options, const char *const *paths,
			 uint32_t count)
{
	struct source_archive archive;
	struct source_pack pack;
	struct error err = { 0 };
	char text[8] = "";

	if (source_pack(options, &pack, &err))
		fail_msg("%s", err.text);
	_cleanup_close_ int fd = pack.fd;
	if (source_archive_read(fd, pack.bytes, &archive, &err))
		fail_msg("%s", err.text);
	EXPECT_STR(options->service, archive.service, "service");
	EXPECT_STR(options->version, archive.version, "version");
	EXPECT_EQ(count, archive.file_count, "files");
	EXPECT_EQ(count, pack.file_count, "files");
	EXPECT_EQ(1, pack.too_large, "too large");
	EXPECT_EQ(64, strlen(pack.id), "id");
	for (uint32_t i = 0; i < count; i++)
		EXPECT_STR(paths[i], archive.files[i].path, "path");
	assert_int_equal(6, pread(fd, text, 6, (off_t)archive.files[0].offset));
	EXPECT_STR("x = 1\n", text, "bytes");
	source_archive_deinit(&archive);
}

TEST(packs_source_code_alone)
{
	static const char *const paths[] = { "app/model.py", "app/z/a.c", "run.py" };
	static const char *const at[] = { "srv/x/app/model.py", "srv/x/app/z/a.c", "srv/x/run.py" };
	char folder[40], slash[48];

	make_folder(folder);
	struct source_pack_options options = { .folder = folder,
					       .service = "shop",
					       .version = "1" };
	expect_files(&options, paths, 3);
	snprintf(slash, sizeof(slash), "%s//", folder);
	options.folder = slash;
	options.at = "/srv/x/";
	expect_files(&options, at, 3);
	remove_folder(folder);
}

TEST(says_why_there_is_nothing)
{
	struct source_pack_options options = { .service = "", .version = "" };
	char folder[] = "/tmp/cairn-pack-XXXXXX";
	struct source_pack pack;
	struct error err = { 0 };

	assert_non_null(mkdtemp(folder));
	options.folder = folder;
	EXPECT_EQ(-ENOENT, source_pack(&options, &pack, &err), "empty");
	options.folder = "/etc/passwd";
	EXPECT_EQ(-EINVAL, source_pack(&options, &pack, &err), "a file");
	options.folder = "/nowhere";
	assert_true(source_pack(&options, &pack, &err) < 0);
	remove_folder(folder);
}

RUN_TESTS(cmocka_unit_test(packs_source_code_alone), cmocka_unit_test(says_why_there_is_nothing))
