// SPDX-License-Identifier: Apache-2.0
// Test equipment: a double of libnccl.so.2, without GPUs. Ranks (threads or processes) meet in a file of shared memory that is
// named by the unique id. Calls that move data only check their arguments, as if they had enqueued a GPU kernel. It refuses what
// the real library refuses, with the same results. Never installed.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* As in nccl.h 2.30. */
typedef enum {
	ncclSuccess = 0,
	ncclSystemError = 2,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
} ncclResult_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

enum {
	RANKS_MAX = 64,
	TYPES = 12,
	OPERATIONS = 5,       // built-in ones
	JOIN_SECONDS_MAX = 60 // after that a missing rank is a remote error
};

#define MAGIC 0x0280028002800280ULL

/* Shared by the ranks of a communicator. */
struct meeting {
	_Atomic uint64_t came, left; // a bit for each rank
	_Atomic uint32_t splits;
};

struct communicator {
	uint64_t magic;
	int rank, ranks;
	char path[64];
	struct meeting *meeting;
};

typedef struct communicator *ncclComm_t;

static _Thread_local int group_depth;
/* The last failure among the calls of this thread's group. */
static _Thread_local ncclResult_t group_result;

#define EXPORT(name) __attribute__((visibility("default"))) ncclResult_t name

static ncclResult_t result_in_group(ncclResult_t result)
{
	if (result && group_depth)
		group_result = result;
	return result;
}

static bool is_communicator(const struct communicator *communicator)
{
	return communicator && communicator->magic == MAGIC;
}

// ---- communicators --------------------------------------------------------------------------

static struct meeting *open_meeting(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct meeting *meeting = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*meeting)) == 0)
		meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return meeting == MAP_FAILED ? NULL : meeting;
}

/* A barrier of all ranks. */
static ncclResult_t join(struct meeting *meeting, int rank, int ranks)
{
	uint64_t all = ranks == 64 ? UINT64_MAX : (1ULL << ranks) - 1;

	if (atomic_fetch_or(&meeting->came, 1ULL << rank) >> rank & 1)
		return ncclInvalidUsage; // the rank is taken
	for (int ms = 0; atomic_load(&meeting->came) != all; ms++) {
		if (ms == JOIN_SECONDS_MAX * 1000)
			return ncclRemoteError;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return ncclSuccess;
}

static ncclResult_t make(ncclComm_t *made, int ranks, const char *name, int rank)
{
	struct communicator *communicator = NULL;

	if (!made || ranks < 1 || ranks > RANKS_MAX || rank < 0 || rank >= ranks)
		return ncclInvalidArgument;
	communicator = calloc(1, sizeof(*communicator));
	if (!communicator)
		return ncclSystemError;
	communicator->rank = rank;
	communicator->ranks = ranks;
	snprintf(communicator->path, sizeof(communicator->path), "/dev/shm/nccl-double-%s", name);
	communicator->meeting = open_meeting(communicator->path);
	ncclResult_t result =
		communicator->meeting ? join(communicator->meeting, rank, ranks) : ncclSystemError;
	if (result) {
		free(communicator);
		return result;
	}
	communicator->magic = MAGIC;
	*made = communicator;
	return ncclSuccess;
}

static void name_of_id(const ncclUniqueId *id, char name[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(name + 2 * i, 3, "%02x", (unsigned char)id->internal[i]);
}

EXPORT(ncclGetUniqueId)(ncclUniqueId *id)
{
	if (!id)
		return ncclInvalidArgument;
	return getrandom(id, sizeof(*id), 0) == sizeof(*id) ? ncclSuccess : ncclSystemError;
}

static ncclResult_t init(ncclComm_t *made, int ranks, const ncclUniqueId *id, int rank)
{
	char name[33];

	name_of_id(id, name);
	return result_in_group(make(made, ranks, name, rank));
}

EXPORT(ncclCommInitRank)(ncclComm_t *made, int ranks, ncclUniqueId id, int rank)
{
	return init(made, ranks, &id, rank);
}

EXPORT(ncclCommInitRankConfig)(ncclComm_t *made, int ranks, ncclUniqueId id, int rank, void *config)
{
	(void)config;
	return init(made, ranks, &id, rank);
}

EXPORT(ncclCommInitRankScalable)
(ncclComm_t *made, int ranks, int rank, int id_count, ncclUniqueId *ids, void *config)
{
	(void)config;
	if (id_count < 1 || !ids)
		return ncclInvalidArgument;
	return init(made, ranks, &ids[0], rank);
}

EXPORT(ncclCommSplit)(ncclComm_t communicator, int color, int key, ncclComm_t *made, void *config)
{
	char name[33];

	(void)config;
	if (!is_communicator(communicator) || !made)
		return ncclInvalidArgument;
	// The double's ranks all keep their numbers: one color.
	if (color != 0 || key != communicator->rank)
		return ncclInvalidUsage;
	uint32_t number =
		atomic_fetch_add(&communicator->meeting->splits, 1) / (uint32_t)communicator->ranks;
	snprintf(name, sizeof(name), "%.24s-%u", strrchr(communicator->path, '-') + 1, number);
	return make(made, communicator->ranks, name, communicator->rank);
}

/* Called by the remaining ranks only. */
EXPORT(ncclCommShrink)
(ncclComm_t communicator, int *gone, int gone_count, ncclComm_t *made, void *config, int flags)
{
	int rank;
	char name[33];

	(void)config, (void)flags;
	if (!is_communicator(communicator) || !made || !gone || gone_count < 1 ||
	    gone_count >= communicator->ranks)
		return ncclInvalidArgument;
	rank = communicator->rank;
	for (int i = 0; i < gone_count; i++) {
		if (gone[i] == communicator->rank)
			return ncclInvalidUsage;
		rank -= gone[i] < communicator->rank;
	}
	snprintf(name, sizeof(name), "%.24s-s", strrchr(communicator->path, '-') + 1);
	return make(made, communicator->ranks - gone_count, name, rank);
}

static ncclResult_t end(ncclComm_t communicator)
{
	if (!is_communicator(communicator))
		return ncclInvalidArgument;
	uint64_t mine = 1ULL << communicator->rank;
	uint64_t left = atomic_fetch_or(&communicator->meeting->left, mine) | mine;
	if (left == atomic_load(&communicator->meeting->came))
		unlink(communicator->path);
	munmap(communicator->meeting, sizeof(*communicator->meeting));
	communicator->magic = 0;
	free(communicator);
	return ncclSuccess;
}

EXPORT(ncclCommDestroy)(ncclComm_t communicator)
{
	return communicator ? end(communicator) : ncclSuccess;
}

EXPORT(ncclCommAbort)(ncclComm_t communicator)
{
	return communicator ? end(communicator) : ncclSuccess;
}

EXPORT(ncclCommUserRank)(ncclComm_t communicator, int *rank)
{
	if (!is_communicator(communicator) || !rank)
		return ncclInvalidArgument;
	*rank = communicator->rank;
	return ncclSuccess;
}

EXPORT(ncclCommCount)(ncclComm_t communicator, int *ranks)
{
	if (!is_communicator(communicator) || !ranks)
		return ncclInvalidArgument;
	*ranks = communicator->ranks;
	return ncclSuccess;
}

// ---- collective calls ------------------------------------------------------------------------

/* @root: a rank of the communicator. */
static ncclResult_t enqueue(ncclComm_t communicator, const void *buffer, size_t count, int type,
			    int root)
{
	if (!is_communicator(communicator))
		return result_in_group(ncclInvalidArgument);
	if ((!buffer && count) || type < 0 || type >= TYPES || root < 0 ||
	    root >= communicator->ranks)
		return result_in_group(ncclInvalidArgument);
	return ncclSuccess;
}

static ncclResult_t reduce(ncclComm_t communicator, const void *buffer, size_t count, int type,
			   int operation, int root)
{
	if (operation < 0 || operation >= OPERATIONS)
		return result_in_group(ncclInvalidArgument);
	return enqueue(communicator, buffer, count, type, root);
}

EXPORT(ncclAllReduce)
(const void *from, void *to, size_t count, int type, int operation, ncclComm_t communicator,
 void *stream)
{
	(void)to, (void)stream;
	return reduce(communicator, from, count, type, operation, 0);
}

EXPORT(ncclReduce)
(const void *from, void *to, size_t count, int type, int operation, int root,
 ncclComm_t communicator, void *stream)
{
	(void)to, (void)stream;
	return reduce(communicator, from, count, type, operation, root);
}

EXPORT(ncclReduceScatter)
(const void *from, void *to, size_t count, int type, int operation, ncclComm_t communicator,
 void *stream)
{
	(void)to, (void)stream;
	return reduce(communicator, from, count, type, operation, 0);
}

EXPORT(ncclBroadcast)
(const void *from, void *to, size_t count, int type, int root, ncclComm_t communicator,
 void *stream)
{
	(void)to, (void)stream;
	return enqueue(communicator, from, count, type, root);
}

EXPORT(ncclAllGather)
(const void *from, void *to, size_t count, int type, ncclComm_t communicator, void *stream)
{
	(void)to, (void)stream;
	return enqueue(communicator, from, count, type, 0);
}

EXPORT(ncclSend)
(const void *from, size_t count, int type, int peer, ncclComm_t communicator, void *stream)
{
	(void)stream;
	return enqueue(communicator, from, count, type, peer);
}

EXPORT(ncclRecv)(void *to, size_t count, int type, int peer, ncclComm_t communicator, void *stream)
{
	(void)stream;
	return enqueue(communicator, to, count, type, peer);
}

EXPORT(ncclGroupStart)(void)
{
	if (!group_depth++)
		group_result = ncclSuccess;
	return ncclSuccess;
}

EXPORT(ncclGroupEnd)(void)
{
	if (!group_depth)
		return ncclInvalidUsage;
	return --group_depth ? ncclSuccess : group_result;
}
