// SPDX-License-Identifier: Apache-2.0
// A real ClickHouse server for tests: on loopback, with its data in a folder that goes away. $CLICKHOUSE_URL, if set, is
// used instead of a server of ours.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collector/store/clickhouse/clickhouse.h"
#include "tests/unit/collector/store/store_fixture.h"

#define CLICKHOUSE_PROGRAM "/usr/sbin/clickhouse-server"

struct clickhouse_server_process {
	char path[64];
	char url[64];
	int port, tcp_port;
	pid_t pid; // 0: does not run
};

static inline int free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(0, bind(fd, (struct sockaddr *)&address, size));
	assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &size));
	return ntohs(address.sin_port);
}

static inline bool port_answers(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static inline void write_text(const char *folder, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	_cleanup_fclose_ FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
}

/** @more: elements of the configuration, or "". */
static inline void clickhouse_server_configure(struct clickhouse_server_process *server,
					       const char *more)
{
	char text[4096];

	snprintf(text, sizeof(text),
		 "<yandex><logger><level>warning</level><log>%s/log</log><errorlog>%s/errors"
		 "</errorlog></logger><http_port>%d</http_port><tcp_port>%d</tcp_port>"
		 "<listen_host>127.0.0.1</listen_host><path>%s/data/</path>"
		 "<tmp_path>%s/tmp/</tmp_path><mark_cache_size>33554432</mark_cache_size>"
		 "<users_config>%s/users.xml</users_config>"
		 "<default_profile>default</default_profile>"
		 "<default_database>default</default_database>%s</yandex>",
		 server->path, server->path, server->port, server->tcp_port, server->path,
		 server->path, server->path, more);
	write_text(server->path, "config.xml", text);
	write_text(server->path, "users.xml",
		   "<yandex><profiles><default></default></profiles><users><default><password>"
		   "</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>"
		   "<quota>default</quota></default></users><quotas><default/></quotas></yandex>");
}

/** Run it, and wait until it answers. */
static inline void clickhouse_server_run(struct clickhouse_server_process *server)
{
	char config[96];

	snprintf(config, sizeof(config), "--config-file=%s/config.xml", server->path);
	server->pid = fork();
	if (!server->pid) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl(CLICKHOUSE_PROGRAM, CLICKHOUSE_PROGRAM, config, NULL);
		_exit(127);
	}
	for (int i = 0; !port_answers(server->port); i++) {
		int status;

		if (i == 3000 || waitpid(server->pid, &status, WNOHANG) == server->pid)
			fail_msg("clickhouse-server does not start: see %s/errors", server->path);
		usleep(10000);
	}
}

static inline void clickhouse_server_kill(struct clickhouse_server_process *server)
{
	int status;

	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	waitpid(server->pid, &status, 0);
	server->pid = 0;
}

/** False: there is none on this machine. */
static inline bool clickhouse_server_prepare(struct clickhouse_server_process *server)
{
	*server = (struct clickhouse_server_process){ 0 };
	if (access(CLICKHOUSE_PROGRAM, X_OK) != 0)
		return false;
	strcpy(server->path, "/tmp/cairn-clickhouse-XXXXXX");
	assert_non_null(mkdtemp(server->path));
	server->port = free_port();
	server->tcp_port = free_port();
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%d", server->port);
	return true;
}

static inline void clickhouse_server_remove(struct clickhouse_server_process *server)
{
	char command[128];

	clickhouse_server_kill(server);
	if (!*server->path)
		return;
	snprintf(command, sizeof(command), "rm -rf %s", server->path);
	assert_int_equal(0, system(command));
}

/** A database for each directory of a scene. */
static inline void database_of_path(const char *path, char database[64])
{
	snprintf(database, 64, "test_%s", strlen(path) > 6 ? path + strlen(path) - 6 : path);
}
