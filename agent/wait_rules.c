// SPDX-License-Identifier: Apache-2.0
#include "agent/wait_rules.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * The kernel's functions, by the names they have in 6.1 to 6.18. The first that has a rule decides,
 * from the leaf: the scheduler's own are not on the stack.
 */
static const struct kernel_rule kernel_rules[] = {
	// kernel/futex/: futex_wait_queue() until 6.15, futex_do_wait() since.
	{ "futex_*", CAUSE_LOCK, false },
	{ "__futex_*", CAUSE_LOCK, false },
	{ "do_futex", CAUSE_LOCK, false },
	// ipc/sem.c, fs/locks.c
	{ "do_semtimedop", CAUSE_LOCK, false },
	{ "__do_semtimedop", CAUSE_LOCK, false },
	{ "locks_lock_inode_wait", CAUSE_LOCK, false },
	{ "fcntl_setlk", CAUSE_LOCK, false },
	{ "do_lock_file_wait", CAUSE_LOCK, false },
	// kernel/locking/: whoever takes it says more.
	{ "__mutex_lock*", CAUSE_KERNEL_LOCK, false },
	{ "mutex_lock*", CAUSE_KERNEL_LOCK, false },
	{ "rwsem_down_*", CAUSE_KERNEL_LOCK, false },
	{ "down_read*", CAUSE_KERNEL_LOCK, false },
	{ "down_write*", CAUSE_KERNEL_LOCK, false },
	{ "__down_*", CAUSE_KERNEL_LOCK, false },
	{ "percpu_rwsem_wait", CAUSE_KERNEL_LOCK, false },
	{ "rt_mutex_*", CAUSE_KERNEL_LOCK, false },
	// arch/x86/mm/fault.c, arch/arm64/mm/fault.c: also one that a system call makes.
	{ "exc_page_fault", CAUSE_PAGE_FAULT, true },
	{ "asm_exc_page_fault", CAUSE_PAGE_FAULT, true },
	{ "do_user_addr_fault", CAUSE_PAGE_FAULT, true },
	{ "do_page_fault", CAUSE_PAGE_FAULT, true },
	{ "do_mem_abort", CAUSE_PAGE_FAULT, true },
	{ "handle_mm_fault", CAUSE_PAGE_FAULT, true },
	{ "handle_userfault", CAUSE_PAGE_FAULT, true },
	// fs/eventpoll.c, fs/select.c
	{ "ep_poll", CAUSE_EPOLL, false },
	{ "do_epoll_wait", CAUSE_EPOLL, false },
	{ "do_epoll_pwait", CAUSE_EPOLL, false },
	{ "poll_schedule_timeout", CAUSE_POLL, false },
	{ "do_poll", CAUSE_POLL, false },
	{ "do_sys_poll", CAUSE_POLL, false },
	{ "do_select", CAUSE_POLL, false },
	{ "core_sys_select", CAUSE_POLL, false },
	// io_uring/: also of sockets, but who waits for files has no other way to
	{ "io_cqring_wait*", CAUSE_RING, false },
	{ "io_uring_*", CAUSE_RING, false },
	{ "__do_sys_io_uring_enter", CAUSE_RING, false },
	// Waits for a connection are waits for work: net/ipv4/inet_connection_sock.c, net/unix/.
	{ "inet_csk_accept", CAUSE_WORK, true },
	{ "do_accept", CAUSE_WORK, true },
	{ "__sys_accept4", CAUSE_WORK, true },
	{ "unix_accept", CAUSE_WORK, true },
	// net/
	{ "sk_wait_data", CAUSE_NETWORK, false },
	{ "sk_stream_wait_*", CAUSE_NETWORK, false },
	{ "__lock_sock", CAUSE_NETWORK, false },
	{ "lock_sock_nested", CAUSE_NETWORK, false },
	{ "__skb_wait_for_more_packets", CAUSE_NETWORK, false },
	{ "__skb_recv_*", CAUSE_NETWORK, false },
	{ "skb_recv_*", CAUSE_NETWORK, false },
	{ "sock_alloc_send_pskb", CAUSE_NETWORK, false },
	{ "sock_wait_for_wmem", CAUSE_NETWORK, false },
	{ "tcp_*", CAUSE_NETWORK, false },
	{ "mptcp_*", CAUSE_NETWORK, false },
	{ "udp_*", CAUSE_NETWORK, false },
	{ "udpv6_*", CAUSE_NETWORK, false },
	{ "inet_*", CAUSE_NETWORK, false },
	{ "__inet_*", CAUSE_NETWORK, false },
	{ "inet6_*", CAUSE_NETWORK, false },
	{ "unix_*", CAUSE_NETWORK, false },
	{ "__unix_*", CAUSE_NETWORK, false },
	{ "netlink_*", CAUSE_NETWORK, false },
	{ "packet_recvmsg", CAUSE_NETWORK, false },
	{ "vsock_*", CAUSE_NETWORK, false },
	{ "tls_sw_*", CAUSE_NETWORK, false },
	{ "sctp_*", CAUSE_NETWORK, false },
	{ "sock_recvmsg", CAUSE_NETWORK, false },
	{ "sock_sendmsg", CAUSE_NETWORK, false },
	{ "__sock_sendmsg", CAUSE_NETWORK, false },
	{ "____sys_recvmsg", CAUSE_NETWORK, false },
	{ "____sys_sendmsg", CAUSE_NETWORK, false },
	{ "rpc_wait_bit_killable", CAUSE_NETWORK, false }, // NFS
	// fs/pipe.c (anon_pipe_* since 6.15), fs/eventfd.c, ipc/
	{ "pipe_*", CAUSE_PIPE, false },
	{ "anon_pipe_*", CAUSE_PIPE, false },
	{ "fifo_*", CAUSE_PIPE, false },
	{ "wait_for_partner", CAUSE_PIPE, false },
	{ "eventfd_*", CAUSE_PIPE, false },
	{ "do_msgrcv", CAUSE_PIPE, false },
	{ "do_msgsnd", CAUSE_PIPE, false },
	{ "do_mq_timed*", CAUSE_PIPE, false },
	// kernel/time/hrtimer.c, fs/timerfd.c
	{ "hrtimer_nanosleep", CAUSE_SLEEP, false },
	{ "do_nanosleep", CAUSE_SLEEP, false },
	{ "common_nsleep*", CAUSE_SLEEP, false },
	{ "timerfd_read*", CAUSE_SLEEP, false },
	// kernel/signal.c: a thread that handles signals; fs/signalfd.c, fs/notify/
	{ "do_sigtimedwait", CAUSE_WORK, false },
	{ "__do_sys_pause", CAUSE_WORK, false },
	{ "sigsuspend", CAUSE_WORK, false },
	{ "signalfd_read*", CAUSE_WORK, false },
	{ "inotify_read", CAUSE_WORK, false },
	{ "fanotify_read", CAUSE_WORK, false },
	// A person, a log, a file system's requests: drivers/tty/, kernel/printk/, fs/fuse/dev.c
	{ "n_tty_read", CAUSE_WORK, false },
	{ "do_syslog", CAUSE_WORK, false },
	{ "devkmsg_read", CAUSE_WORK, false },
	{ "fuse_dev_do_read", CAUSE_WORK, false },
	// kernel/signal.c, kernel/ptrace.c, kernel/cgroup/freezer.c
	{ "do_signal_stop", CAUSE_STOPPED, false },
	{ "ptrace_stop", CAUSE_STOPPED, false },
	{ "do_freezer_trap", CAUSE_STOPPED, false },
	{ "__refrigerator", CAUSE_STOPPED, false },
	{ "do_jobctl_trap", CAUSE_STOPPED, false },
	// kernel/exit.c, kernel/fork.c: vfork() waits in kernel_clone() itself.
	{ "do_wait", CAUSE_CHILD, false },
	{ "__do_wait", CAUSE_CHILD, false },
	{ "kernel_wait4", CAUSE_CHILD, false },
	{ "kernel_waitid*", CAUSE_CHILD, false },
	{ "kernel_clone", CAUSE_CHILD, false },
	{ "__do_sys_vfork", CAUSE_CHILD, false },
	// mm/filemap.c, block/, fs/: io_schedule() is not always on the stack.
	{ "io_schedule*", CAUSE_DISK, false },
	{ "folio_wait_*", CAUSE_DISK, false },
	{ "__folio_lock*", CAUSE_DISK, false },
	{ "wait_on_page_*", CAUSE_DISK, false },
	{ "__lock_page*", CAUSE_DISK, false },
	{ "bit_wait_io*", CAUSE_DISK, false },
	{ "__wait_on_buffer", CAUSE_DISK, false },
	{ "wait_for_completion_io*", CAUSE_DISK, false },
	{ "submit_bio_wait", CAUSE_DISK, false },
	{ "blk_*", CAUSE_DISK, false },
	{ "__blk*", CAUSE_DISK, false },
	{ "blkdev_*", CAUSE_DISK, false },
	{ "rq_qos_wait", CAUSE_DISK, false },
	{ "wbt_wait", CAUSE_DISK, false },
	{ "filemap_*", CAUSE_DISK, false },
	{ "__filemap_*", CAUSE_DISK, false },
	{ "file_write_and_wait_range", CAUSE_DISK, false },
	{ "balance_dirty_pages*", CAUSE_DISK, false },
	{ "wb_wait_for_completion", CAUSE_DISK, false },
	{ "sync_inodes_sb", CAUSE_DISK, false },
	{ "ksys_sync", CAUSE_DISK, false },
	{ "vfs_fsync_range", CAUSE_DISK, false },
	{ "do_fsync", CAUSE_DISK, false },
	{ "iomap_*", CAUSE_DISK, false },
	{ "__iomap_*", CAUSE_DISK, false },
	{ "read_events", CAUSE_DISK, false }, // fs/aio.c
	{ "jbd2_*", CAUSE_DISK, false },
	{ "ext4_*", CAUSE_DISK, false },
	{ "xfs_*", CAUSE_DISK, false },
	{ "btrfs_*", CAUSE_DISK, false },
	{ "f2fs_*", CAUSE_DISK, false },
	{ "nfs_*", CAUSE_DISK, false },
	{ "nfs4_*", CAUSE_DISK, false },
	{ "ceph_*", CAUSE_DISK, false },
	{ "request_wait_answer", CAUSE_DISK, false }, // fs/fuse/dev.c
	{ "fuse_*", CAUSE_DISK, false },
	{ "swap_readpage*", CAUSE_DISK, false },
};

#define BIT(cause) (1U << (cause))
#define LOCKS      (BIT(CAUSE_LOCK) | BIT(CAUSE_UNKNOWN))
#define EVENTS     (BIT(CAUSE_EPOLL) | BIT(CAUSE_POLL) | BIT(CAUSE_RING))

#define THROUGH(name)                                 \
	{                                             \
		name, NULL, false, ROLE_THROUGH, 0, 0 \
	}
#define RUNS(name)                                 \
	{                                          \
		name, NULL, false, ROLE_RUNS, 0, 0 \
	}
#define LIKELY(name)                                 \
	{                                            \
		name, NULL, false, ROLE_LIKELY, 0, 0 \
	}
#define LOOP(name)                                 \
	{                                          \
		name, NULL, false, ROLE_LOOP, 0, 0 \
	}
#define LOOP_IN(place, name)                        \
	{                                           \
		name, place, false, ROLE_LOOP, 0, 0 \
	}
#define IS(name, class, causes)                              \
	{                                                    \
		name, NULL, false, ROLE_CLASS, class, causes \
	}
#define PY_THROUGH(place, name)                       \
	{                                             \
		name, place, true, ROLE_THROUGH, 0, 0 \
	}
#define PY_TARGET(place, name)                       \
	{                                            \
		name, place, true, ROLE_TARGET, 0, 0 \
	}
#define PY_RUNS(place, name)                       \
	{                                          \
		name, place, true, ROLE_RUNS, 0, 0 \
	}
#define PY_LOOP(place, name)                       \
	{                                          \
		name, place, true, ROLE_LOOP, 0, 0 \
	}
#define PY_IS(place, name, class, causes)                    \
	{                                                    \
		name, place, true, ROLE_CLASS, class, causes \
	}

/*
 * Functions of programs, as demangled, without their arguments; underscores that they begin with are
 * ignored. The first rule that fits a function is taken.
 */
static const struct user_rule user_rules[] = {
	// Threads that wait for another's end, in C libraries and in Rust's and C++'s over them.
	IS("pthread_join", WAIT_CLASS_CHILD, LOCKS),
	IS("pthread_clockjoin_ex", WAIT_CLASS_CHILD, LOCKS),
	IS("pthread_timedjoin*", WAIT_CLASS_CHILD, LOCKS),
	// C libraries: glibc's nptl/, musl's src/thread/
	THROUGH("pthread_*"),
	THROUGH("futex_*"),
	THROUGH("lll_*"),
	THROUGH("sem_*"),
	THROUGH("new_sem_*"),
	THROUGH("timedwait*"),
	THROUGH("syscall*"),
	THROUGH("epoll_wait"),
	THROUGH("epoll_pwait*"),
	THROUGH("poll"),
	THROUGH("ppoll"),
	THROUGH("select"),
	THROUGH("pselect"),
	THROUGH("read"),
	// C++: a function object that a pool calls is someone's work.
	RUNS("~std::_Function_handler"),
	RUNS("~std::function"),
	RUNS("~std::__invoke"),
	RUNS("~std::__1::__function"),
	THROUGH("std::*"),
	THROUGH("void std::*"),
	THROUGH("bool std::*"),
	THROUGH("absl::*"),
	THROUGH("AbslInternalPerThreadSem*"),
	THROUGH("boost::condition_variable*"),
	THROUGH("boost::posix::*"),
	// CUDA: threads of the driver's own have been told from others before.
	{ "", "libcuda.so", false, ROLE_CLASS, WAIT_CLASS_GPU, 0 },
	IS("cuStreamSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cuCtxSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cuEventSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaStreamSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaDeviceSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaEventSynchronize*", WAIT_CLASS_GPU, 0),
	// gRPC C core: a call that waits for its own answer, and queues that serve all.
	IS("grpc_completion_queue_pluck", WAIT_CLASS_NETWORK, 0),
	IS("cq_pluck", WAIT_CLASS_NETWORK, 0),
	LOOP("cq_next"),
	LOOP("grpc_completion_queue_next"),
	LIKELY("pollset_work"),
	LIKELY("grpc_pollset_work"),
	LOOP("grpc_event_engine::posix_engine::TimerManager::*"),
	THROUGH("gpr_*"),
	LOOP("grpc_core::Executor::ThreadMain"),
	LOOP("grpc_event_engine::experimental::WorkStealingThreadPool*"),
	LOOP("timer_main_loop"),
	// Event loops: libuv, libevent, libev, GLib, nginx, redis, ZeroMQ, Asio
	LOOP("uv__io_poll"),
	LOOP("uv_run"),
	LOOP_IN("libuv.", "worker"),
	LOOP_IN("node", "worker"),
	LOOP("event_base_loop"),
	LOOP("ev_run"),
	LOOP("g_main_context_iterate*"),
	LOOP("g_main_context_poll*"),
	LOOP("g_main_loop_run"),
	LOOP("g_thread_pool_*"),
	LOOP("ngx_process_events_and_timers"),
	LOOP("ngx_epoll_process_events"),
	LOOP("ngx_thread_pool_cycle"),
	LOOP("aeProcessEvents"),
	LOOP("aeMain"),
	LOOP("bioProcessBackgroundJobs"),
	LOOP("zmq::epoll_t::loop"),
	LOOP("boost::asio::detail::scheduler::*"),
	LOOP("boost::asio::detail::epoll_reactor::run"),
	LOOP("asio::detail::scheduler::*"),
	// PostgreSQL: WaitEventSetWait() serves clients, locks and replication alike.
	IS("ProcSleep", WAIT_CLASS_LOCK, 0),
	IS("LWLockAcquire*", WAIT_CLASS_LOCK, 0),
	IS("SyncRepWaitForLSN", WAIT_CLASS_NETWORK, 0),
	THROUGH("WaitEventSetWait*"),
	THROUGH("WaitLatch*"),
	// Pools in C and C++: PyTorch, Eigen, TBB, OpenMP, BLAS, Folly, RocksDB, V8, Arrow
	LOOP("c10::ThreadPool::main_loop"),
	LOOP("torch::autograd::ReadyQueue::pop"),
	LOOP("torch::autograd::Engine::thread_main"),
	LOOP("~ThreadPoolTempl<"),
	LOOP("gomp_thread_start"),
	LOOP("kmp_fork_barrier*"),
	LOOP("kmp_launch_thread"),
	IS("kmp_join_barrier*", WAIT_CLASS_LOCK, 0),
	IS("kmp_barrier*", WAIT_CLASS_LOCK, 0),
	IS("gomp_team_barrier_wait*", WAIT_CLASS_LOCK, 0),
	IS("gomp_mutex_lock*", WAIT_CLASS_LOCK, 0),
	THROUGH("gomp_*"),
	THROUGH("kmp_*"),
	LOOP("blas_thread_server"),
	LOOP("~rml::private_worker::run"),
	LOOP("~private_worker::thread_routine"),
	LOOP("~thread_dispatcher"),
	LOOP("folly::CPUThreadPoolExecutor::threadRun"),
	THROUGH("folly::*"),
	LOOP("rocksdb::ThreadPoolImpl::Impl::BGThread"),
	THROUGH("rocksdb::port::*"),
	LOOP("arrow::internal::WorkerLoop"),
	LOOP("~DefaultWorkerThreadsTaskRunner"),
	LOOP("~PlatformWorkerThread"),
	THROUGH("~::BlockingPop"),
	THROUGH("v8::base::*"),
	// Go's runtime: threads wait for goroutines, not goroutines for threads (runtime/proc.go).
	IS("runtime.lock2", WAIT_CLASS_LOCK, 0),
	LOOP("runtime.mPark"),
	LOOP("runtime.stopm"),
	LOOP("runtime.notesleep"),
	LOOP("runtime.notetsleep*"),
	LOOP("runtime.findRunnable"),
	LOOP("runtime.findrunnable"),
	LOOP("runtime.netpoll"),
	LOOP("runtime.sysmon"),
	THROUGH("runtime.*"),
	// Rust: tokio, rayon; std parks on behalf of its caller.
	LOOP("~tokio::runtime::scheduler::multi_thread::worker"),
	LOOP("~tokio::runtime::blocking::pool"),
	LOOP("~tokio::runtime::io::driver"),
	LOOP("~tokio::runtime::park::"),
	LOOP("~tokio::runtime::scheduler::current_thread"),
	LOOP("~rayon_core::sleep::"),
	LOOP("~rayon_core::registry::WorkerThread::wait_until"),
	THROUGH("core::*"),
	THROUGH("parking_lot*"),
	THROUGH("<parking_lot*"),
	THROUGH("mio::*"),
	// HotSpot, and Java where a map names its code, "Lorg/Class;::method" or "org.Class.method"
	LOOP("~CompileQueue::get"),
	LOOP("~CompileBroker::compiler_thread_loop"),
	LOOP("~VMThread::loop"),
	LOOP("~VMThread::wait_for_"),
	LOOP("~WatcherThread::"),
	LOOP("~WorkerThread::run"),
	LOOP("~GangWorker::loop"),
	LOOP("~ConcurrentG1Refine"),
	LOOP("~G1ConcurrentRefine"),
	LOOP("~G1ServiceThread"),
	LOOP("~ThreadPoolExecutor;::getTask"),
	LOOP("~ThreadPoolExecutor.getTask"),
	LOOP("~ThreadPoolExecutor::getTask"),
	LOOP("~ForkJoinPool;::awaitWork"),
	LOOP("~ForkJoinPool.awaitWork"),
	LOOP("~ForkJoinPool::awaitWork"),
	LOOP("~waitForReferencePendingList"),
	LOOP("~ReferenceQueue;::remove"),
	LOOP("~ReferenceQueue.remove"),
	THROUGH("os::*"),
	THROUGH("~Parker::park"),
	THROUGH("~PlatformEvent::park"),
	THROUGH("~ObjectMonitor::"),
	THROUGH("~Monitor::wait"),
	THROUGH("~Unsafe_Park"),
	THROUGH("~misc/Unsafe;::park"),
	THROUGH("~misc.Unsafe.park"),
	THROUGH("~LockSupport"),
	THROUGH("~AbstractQueuedSynchronizer"),
	THROUGH("~BlockingQueue"),
	THROUGH("~SynchronousQueue"),
	THROUGH("~DelayedWorkQueue"),
	// CPython's own, where its symbols are there
	THROUGH("Py*"),
	THROUGH("acquire_timed"),
	// Python's library: pools and event loops
	PY_RUNS("concurrent/futures/thread.py", "run"),
	PY_LOOP("concurrent/futures/thread.py", "_worker"),
	PY_LOOP("concurrent/futures/process.py", "_process_worker"),
	PY_LOOP("concurrent/futures/process.py", "wait_result_broken_or_wakeup"),
	PY_LOOP("multiprocessing/pool.py", "worker"),
	PY_LOOP("multiprocessing/pool.py", "_handle_tasks"),
	PY_LOOP("multiprocessing/pool.py", "_handle_results"),
	PY_LOOP("multiprocessing/pool.py", "_handle_workers"),
	PY_LOOP("multiprocessing/pool.py", "_wait_for_updates"),
	PY_LOOP("multiprocessing/queues.py", "_feed"),
	PY_LOOP("multiprocessing/resource_tracker.py", "main"),
	PY_LOOP("multiprocessing/forkserver.py", "main"),
	PY_LOOP("asyncio/base_events.py", "_run_once"),
	PY_LOOP("socketserver.py", "serve_forever"),
	PY_LOOP("sched.py", "run"),
	PY_LOOP("logging/handlers.py", "_monitor"),
	PY_LOOP("tqdm/_monitor.py", "run"),
	PY_LOOP("gunicorn/arbiter.py", "sleep"),
	PY_LOOP("gunicorn/workers/sync.py", "wait"),
	PY_LOOP("torch/utils/data/_utils/worker.py", "_worker_loop"),
	PY_LOOP("torch/utils/data/_utils/pin_memory.py", ""),
	PY_LOOP("torch/_inductor/compile_worker/subproc_pool.py", "_read_thread"),
	PY_LOOP("kombu/asynchronous/hub.py", "create_loop"),
	PY_LOOP("gevent/hub.py", "run"),
	// ... and what waits for others
	PY_IS("subprocess.py", "", WAIT_CLASS_CHILD, EVENTS | LOCKS),
	PY_IS("multiprocessing/popen_fork.py", "wait", WAIT_CLASS_CHILD, EVENTS | LOCKS),
	PY_IS("threading.py", "join", WAIT_CLASS_CHILD, LOCKS),
	PY_IS("threading.py", "_wait_for_tstate_lock", WAIT_CLASS_CHILD, LOCKS),
	PY_IS("threading.py", "_shutdown", WAIT_CLASS_CHILD, LOCKS),
	PY_IS("socket.py", "", WAIT_CLASS_NETWORK, EVENTS),
	PY_IS("ssl.py", "", WAIT_CLASS_NETWORK, EVENTS),
	PY_IS("urllib3/util/wait.py", "", WAIT_CLASS_NETWORK, EVENTS),
	PY_TARGET("queue.py", "get"),
	PY_TARGET("multiprocessing/queues.py", "get"),
	PY_TARGET("threading.py", "wait"),
	PY_THROUGH("threading.py", "wait_for"),
	PY_THROUGH("threading.py", "acquire"),
	PY_THROUGH("threading.py", "__enter__"),
	PY_LOOP("threading.py", "run"), // a Timer's
	PY_THROUGH("selectors.py", "select"),
	PY_THROUGH("multiprocessing/connection.py", ""),
	PY_THROUGH("multiprocessing/synchronize.py", ""),
	PY_THROUGH("multiprocessing/queues.py", ""),
};

/* By what the thread called: where the kernel's part of the stack is not known. */
static const struct {
	const char *name;
	enum wait_cause cause;
} calls[] = {
	{ "epoll_wait", CAUSE_EPOLL },
	{ "epoll_pwait*", CAUSE_EPOLL },
	{ "poll", CAUSE_POLL },
	{ "ppoll", CAUSE_POLL },
	{ "select", CAUSE_POLL },
	{ "pselect", CAUSE_POLL },
	{ "pthread_*", CAUSE_LOCK },
	{ "futex_*", CAUSE_LOCK },
	{ "lll_lock_wait*", CAUSE_LOCK },
	{ "sem_*", CAUSE_LOCK },
	{ "new_sem_*", CAUSE_LOCK },
	{ "runtime.futex*", CAUSE_LOCK },
	{ "clock_nanosleep", CAUSE_SLEEP },
	{ "nanosleep", CAUSE_SLEEP },
	{ "accept", CAUSE_WORK },
	{ "accept4", CAUSE_WORK },
	{ "recv*", CAUSE_NETWORK },
	{ "connect", CAUSE_NETWORK },
	{ "send*", CAUSE_NETWORK },
	{ "wait4", CAUSE_CHILD },
	{ "waitpid", CAUSE_CHILD },
	{ "waitid", CAUSE_CHILD },
	{ "fsync", CAUSE_DISK },
	{ "fdatasync", CAUSE_DISK },
	{ "pread64", CAUSE_DISK },
	{ "pause", CAUSE_WORK },
	{ "sigwait*", CAUSE_WORK },
	{ "sigtimedwait", CAUSE_WORK },
	{ "sigsuspend", CAUSE_WORK },
};

/* Modules of kernels whose functions wait for a GPU. */
static const char *const gpu_modules[] = { "nvidia", "amdgpu", "amdkfd", "i915", "xe", "nouveau" };

static const char *const pool_libraries[] = {
	"libgomp.so",  "libgomp-",          "libomp.so", "libomp-",    "libiomp5.so",
	"libiomp5-",   "libtbb.so",         "libtbb-",   "libcuda.so", "libcupti.so",
	"libopenblas", "libscipy_openblas", "libuv.so",  "libgrpc.so", "libgpr.so",
};

static const char *const system_libraries[] = {
	"libc.so", "libc-",    "libpthread", "ld-",     "libstdc++",  "libc++",   "libm.so",
	"libm-",   "libgcc_s", "[vdso]",     "python3", "libpython3", "libabsl_",
};

// ---- matching -------------------------------------------------------------------------------

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

static const char *basename_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *wait_plain_name(const char *name)
{
	return name + strspn(name, "_");
}

/*
 * Is @name what @pattern says? A name may go on with arguments, template parameters, a version, or
 * what the compiler added: "(", "<", "@", ".constprop.0", "[abi:cxx11]".
 */
static bool matches(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (!length)
		return true;
	if (pattern[0] == '~')
		return strstr(name, pattern + 1) != NULL;
	if (pattern[length - 1] == '*')
		return strncmp(name, pattern, length - 1) == 0;
	return strncmp(name, pattern, length) == 0 && strchr("(<@.[", name[length]);
}

static bool is_gpu_module(const char *module)
{
	module += *module == '[';
	for (size_t i = 0; i < ARRAY_SIZE(gpu_modules); i++) {
		const char *after = module + strlen(gpu_modules[i]);

		if (begins_with(module, gpu_modules[i]) && strchr("]_-", *after))
			return true;
	}
	return false;
}

const struct kernel_rule *kernel_rule_find(const char *name, const char *module)
{
	static const struct kernel_rule gpu = { "", CAUSE_GPU, true };

	if (is_gpu_module(module))
		return &gpu;
	for (size_t i = 0; i < ARRAY_SIZE(kernel_rules); i++)
		if (matches(kernel_rules[i].name, name))
			return &kernel_rules[i];
	return NULL;
}

static bool is_in_file(const char *file, const char *ending)
{
	size_t length = strlen(file), wanted = strlen(ending);

	if (length < wanted || strcmp(file + length - wanted, ending))
		return false;
	return length == wanted || file[length - wanted - 1] == '/';
}

// Qualified names where the interpreter knows them ("Queue.get"), plain ones before 3.11.
static bool fits_python(const struct user_rule *rule, const struct wait_frame *frame)
{
	const char *dot = strrchr(frame->name, '.');

	return is_in_file(frame->file, rule->place) &&
	       (!*rule->name || !strcmp(dot ? dot + 1 : frame->name, rule->name));
}

static bool fits(const struct user_rule *rule, const struct wait_frame *frame, const char *name)
{
	if (rule->is_python != (frame->kind == FRAME_KIND_PYTHON))
		return false;
	if (rule->is_python)
		return fits_python(rule, frame);
	if (rule->place && !begins_with(basename_of(frame->module), rule->place))
		return false;
	return (*name || !*rule->name) && matches(rule->name, name);
}

const struct user_rule *user_rule_find(const struct wait_frame *frame, enum wait_cause cause)
{
	const char *name = wait_plain_name(frame->name);

	for (size_t i = 0; i < ARRAY_SIZE(user_rules); i++) {
		const struct user_rule *rule = &user_rules[i];

		if ((!rule->causes || rule->causes & BIT(cause)) && fits(rule, frame, name))
			return rule;
	}
	return NULL;
}

enum wait_cause wait_cause_of_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (matches(calls[i].name, wait_plain_name(name)))
			return calls[i].cause;
	return CAUSE_UNKNOWN;
}

static bool is_one_of(const char *module, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (begins_with(basename_of(module), names[i]))
			return true;
	return false;
}

bool wait_is_pool_library(const char *module)
{
	return is_one_of(module, pool_libraries, ARRAY_SIZE(pool_libraries));
}

bool wait_is_system_library(const char *module)
{
	return is_one_of(module, system_libraries, ARRAY_SIZE(system_libraries)) ||
	       strstr(basename_of(module), ".cpython-") != NULL;
}
