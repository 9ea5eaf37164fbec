// SPDX-License-Identifier: Apache-2.0
// Rules for programs' functions: thread pools, event loops, runtimes and libraries that wait.
#include "agent/stacks/wait_rules.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/contract/wait_classes.h"

#define BIT(cause) (1U << (cause))
#define LOCKS      (BIT(CAUSE_LOCK) | BIT(CAUSE_UNKNOWN))
#define EVENTS     (BIT(CAUSE_EPOLL) | BIT(CAUSE_POLL) | BIT(CAUSE_RING))

#define NATIVE(name, file, role, class, causes)        \
	{                                              \
		name, file, false, role, class, causes \
	}
#define PYTHON(file, name, role, class, causes)       \
	{                                             \
		name, file, true, role, class, causes \
	}

#define THROUGH(name)                    NATIVE(name, NULL, ROLE_THROUGH, 0, 0)
#define RUNS(name)                       NATIVE(name, NULL, ROLE_RUNS, 0, 0)
#define LIKELY(name)                     NATIVE(name, NULL, ROLE_LIKELY, 0, 0)
#define LOOP(name)                       NATIVE(name, NULL, ROLE_LOOP, 0, 0)
#define LOOP_IN(file, name)              NATIVE(name, file, ROLE_LOOP, 0, 0)
#define IS(name, class, causes)          NATIVE(name, NULL, ROLE_CLASS, class, causes)
#define PY_THROUGH(file, name)           PYTHON(file, name, ROLE_THROUGH, 0, 0)
#define PY_TARGET(file, name)            PYTHON(file, name, ROLE_TARGET, 0, 0)
#define PY_RUNS(file, name)              PYTHON(file, name, ROLE_RUNS, 0, 0)
#define PY_LOOP(file, name)              PYTHON(file, name, ROLE_LOOP, 0, 0)
#define PY_IS(file, name, class, causes) PYTHON(file, name, ROLE_CLASS, class, causes)

/*
 * Demangled names without arguments and leading underscores. The first rule that matches a function is used:
 * put special ones before general ones.
 */
static const struct user_rule user_rules[] = {
	// Joins of threads, in C libraries and in Rust's and C++'s over them
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
	// C++: a function object that a pool calls is work
	RUNS("~std::_Function_handler"),
	RUNS("~std::function"),
	RUNS("~std::__invoke"),
	RUNS("~std::__1::__function"),
	THROUGH("std::*"),
	THROUGH("<std::*"),
	THROUGH("void std::*"),
	THROUGH("bool std::*"),
	THROUGH("absl::*"),
	THROUGH("AbslInternalPerThreadSem*"),
	THROUGH("boost::condition_variable*"),
	THROUGH("boost::posix::*"),
	// CUDA: the driver's own threads were found as a pool library's.
	NATIVE("", "libcuda.so", ROLE_CLASS, WAIT_CLASS_GPU, 0),
	IS("cuStreamSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cuCtxSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cuEventSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaStreamSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaDeviceSynchronize*", WAIT_CLASS_GPU, 0),
	IS("cudaEventSynchronize*", WAIT_CLASS_GPU, 0),
	// gRPC C core: a call waits for its own answer, a queue serves all.
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
	THROUGH("uv_cond_*"),
	THROUGH("uv_sem_*"),
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
	IS("ConditionVariableSleep", WAIT_CLASS_LOCK, 0),
	IS("ConditionVariableTimedSleep", WAIT_CLASS_LOCK, 0),
	IS("shm_mq_*", WAIT_CLASS_PIPE, 0),
	IS("WaitForParallelWorkersTo*", WAIT_CLASS_CHILD, 0),
	IS("WaitForBackgroundWorker*", WAIT_CLASS_CHILD, 0),
	IS("libpqrcv_*", WAIT_CLASS_NETWORK, 0),
	THROUGH("WaitEventSetWait*"),
	THROUGH("WaitLatch*"),
	// Pools in C and C++: PyTorch, Eigen, TBB, OpenMP, BLAS, Folly, RocksDB, V8, Arrow
	LOOP("c10::ThreadPool::main_loop"),
	// The caller of backward() waits there, too, for its devices' threads.
	LIKELY("torch::autograd::ReadyQueue::pop"),
	LIKELY("torch::autograd::Engine::thread_main"),
	IS("torch::autograd::Engine::execute*", WAIT_CLASS_LOCK, 0),
	LOOP("~ProcessGroupNCCL::ncclCommWatchdog"),
	LOOP("~ProcessGroupNCCL::watchdogHandler"),
	LOOP("~ProcessGroupNCCL::heartbeatMonitor"),
	LOOP("~ProcessGroupNCCL::Watchdog"),
	LOOP("~ProcessGroupNCCL::HeartbeatMonitor"),
	LOOP("~TCPStoreMasterDaemon::"),
	LOOP("ncclProxy*"),
	LOOP_IN("libtorch_cpu", "thread_main"), // pthreadpool's
	LOOP("~ThreadPoolTempl<"),
	THROUGH("Eigen::EventCount::*"),
	THROUGH("nsync::*"),
	LOOP("gomp_thread_start"),
	LOOP("kmp_fork_barrier*"),
	LOOP("kmp_launch_thread"),
	IS("kmp_join_barrier*", WAIT_CLASS_LOCK, 0),
	IS("kmp_barrier*", WAIT_CLASS_LOCK, 0),
	IS("gomp_team_barrier_wait*", WAIT_CLASS_LOCK, 0),
	IS("gomp_mutex_lock*", WAIT_CLASS_LOCK, 0),
	THROUGH("gomp_*"),
	THROUGH("kmp_*"),
	THROUGH("bool __kmp_*"),
	THROUGH("void __kmp_*"),
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
	THROUGH("node::ConditionVariableBase*"),
	LOOP("~StartIoThreadMain"),
	THROUGH("v8::base::*"),
	// Go's runtime: threads wait for goroutines, not goroutines for threads (runtime/proc.go).
	IS("runtime.lock2", WAIT_CLASS_LOCK, 0),
	LIKELY("runtime.futex*"),
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
	LOOP("~ServiceThread"),
	LOOP("~MonitorDeflationThread::"),
	LOOP("~NotificationThread::"),
	LOOP("~ConcurrentMarkThread::"),
	LOOP("~StringDedup"),
	LOOP("~ZDirector::"),
	LOOP("~ZDriver"),
	LOOP("~ZStat::"),
	LOOP("~ShenandoahControlThread::"),
	LOOP("~WorkerTaskDispatcher::worker_"),
	LOOP("signal_thread_entry"),
	LOOP("JVM_WaitForReferencePendingList"),
	LOOP("~ThreadPoolExecutor;::getTask"),
	LOOP("~ThreadPoolExecutor.getTask"),
	LOOP("~ThreadPoolExecutor::getTask"),
	LOOP("~ForkJoinPool;::awaitWork"),
	LOOP("~ForkJoinPool.awaitWork"),
	LOOP("~ForkJoinPool::awaitWork"),
	LOOP("~waitForReferencePendingList"),
	LOOP("~ReferenceQueue"),
	LOOP("~util/TimerThread;::mainLoop"),
	LOOP("~util.TimerThread.mainLoop"),
	LOOP("~ReservedThreadExecutor"),
	LOOP("~QueuedThreadPool"),
	IS("os::sleep*", WAIT_CLASS_SLEEP, LOCKS),
	IS("JavaThread::sleep*", WAIT_CLASS_SLEEP, LOCKS),
	IS("JVM_Sleep*", WAIT_CLASS_SLEEP, LOCKS),
	IS("~lang/Thread;::join", WAIT_CLASS_CHILD, LOCKS),
	IS("~lang.Thread.join", WAIT_CLASS_CHILD, LOCKS),
	THROUGH("os::*"),
	THROUGH("PosixSemaphore::*"),
	THROUGH("Semaphore::*"),
	THROUGH("~ObjectSynchronizer::"),
	THROUGH("JVM_MonitorWait"),
	THROUGH("~lang/Object;::wait"),
	THROUGH("~lang.Object.wait"),
	THROUGH("~threads/TaskQueue;::"), // Tomcat's
	THROUGH("~threads.TaskQueue."),
	THROUGH("~BlockingArrayQueue"), // Jetty's
	THROUGH("~Parker::park"),
	THROUGH("~PlatformEvent::park"),
	THROUGH("~ObjectMonitor::"),
	THROUGH("~Monitor::wait"),
	THROUGH("Unsafe_Park"),
	THROUGH("~misc/Unsafe;::park"),
	THROUGH("~misc.Unsafe.park"),
	THROUGH("~LockSupport"),
	THROUGH("~AbstractQueuedSynchronizer"),
	THROUGH("~BlockingQueue"),
	THROUGH("~SynchronousQueue"),
	THROUGH("~DelayedWorkQueue"),
	// CPython with symbols
	THROUGH("Py*"),
	THROUGH("acquire_timed"),
	// Clients that wait for an answer in a library's event loop
	THROUGH("curl_multi_*"),
	IS("curl_easy_perform", WAIT_CLASS_NETWORK, EVENTS),
	IS("PQexec*", WAIT_CLASS_NETWORK, EVENTS),
	IS("PQgetResult", WAIT_CLASS_NETWORK, EVENTS),
	IS("PQconnect*", WAIT_CLASS_NETWORK, EVENTS),
	IS("vio_io_wait", WAIT_CLASS_NETWORK, EVENTS),
	// MySQL's threads for asynchronous I/O
	LOOP("io_handler_thread"),
	LOOP("LinuxAIOHandler::*"),
	IS("sock_accept*", WAIT_CLASS_IDLE, EVENTS),
	IS("sock_*", WAIT_CLASS_NETWORK, EVENTS), // a socket with a time limit is polled first
	IS("internal_connect", WAIT_CLASS_NETWORK, EVENTS),
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
	PY_LOOP("uvicorn/supervisors/multiprocess.py", "run"),
	PY_LOOP("uvicorn/supervisors/basereload.py", "pause"),
	PY_LOOP("waitress/wasyncore.py", "poll"),
	PY_LOOP("twisted/internet/pollreactor.py", "doPoll"),
	PY_LOOP("twisted/internet/selectreactor.py", "doSelect"),
	PY_LOOP("eventlet/hubs/poll.py", "wait"),
	PY_LOOP("eventlet/hubs/selects.py", "wait"),
	PY_LOOP("billiard/pool.py", "wait_for_job"), // celery's
	PY_LOOP("vllm/v1/engine/core.py", "_process_input_queue"),
	PY_THROUGH("vllm/distributed/device_communicators/shm_broadcast.py", ""),
	PY_LOOP("vllm/v1/executor/multiproc_executor.py", "worker_busy_loop"),
	// gRPC: servers, and calls that wait for one answer
	PY_THROUGH("grpc/_common.py", ""),
	PY_LOOP("grpc/_server.py", "_serve"),
	PY_LOOP("grpc/_server.py", "wait_for_termination"),
	PY_LOOP("grpc/_channel.py", "channel_spin"),
	PY_IS("grpc/_channel.py", "", WAIT_CLASS_NETWORK, EVENTS | LOCKS),
	PY_IS("psycopg/waiting.py", "", WAIT_CLASS_NETWORK, EVENTS),
	PY_IS("psycopg/connection.py", "wait", WAIT_CLASS_NETWORK, EVENTS),
	PY_LOOP("torch/utils/data/_utils/worker.py", "_worker_loop"),
	PY_LOOP("torch/utils/data/_utils/pin_memory.py", ""),
	PY_LOOP("torch/_inductor/compile_worker/subproc_pool.py", "_read_thread"),
	PY_LOOP("kombu/asynchronous/hub.py", "create_loop"),
	PY_LOOP("gevent/hub.py", "run"),
	// Python's library: waits for processes, threads and connections
	PY_IS("subprocess.py", "", WAIT_CLASS_CHILD, EVENTS | LOCKS),
	PY_IS("multiprocessing/popen_fork.py", "wait", WAIT_CLASS_CHILD, EVENTS | LOCKS),
	PY_IS("threading.py", "join", WAIT_CLASS_CHILD, LOCKS),
	PY_IS("threading.py", "_wait_for_tstate_lock", WAIT_CLASS_CHILD, LOCKS),
	PY_IS("threading.py", "_shutdown", WAIT_CLASS_CHILD, LOCKS),
	PY_LOOP("http/server.py", "handle_one_request"), // of a connection that is kept
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
	PY_THROUGH("socket.py", "readinto"),
	PY_THROUGH("multiprocessing/connection.py", ""),
	PY_THROUGH("multiprocessing/synchronize.py", ""),
	PY_THROUGH("multiprocessing/queues.py", ""),
};

// ---- matching -------------------------------------------------------------------------------

static bool is_in_file(const char *path, const char *file)
{
	size_t size = strlen(path), file_size = strlen(file);

	return text_ends_with(path, file) &&
	       (size == file_size || path[size - file_size - 1] == '/');
}

/* What rules are matched with, computed once for all rules. */
struct subject {
	const struct wait_frame *frame;
	const char *name; // as rules have it
	bool has_scope;   // "a::b", "a.b", "La/b;::c": only these can match "~"
};

// Qualified names where the interpreter knows them ("Queue.get"), plain ones before 3.11.
static struct subject subject_of(const struct wait_frame *frame)
{
	const char *dot = strrchr(frame->name, '.');

	if (frame->kind == FRAME_KIND_PYTHON)
		return (struct subject){ frame, dot ? dot + 1 : frame->name, false };
	return (struct subject){
		.frame = frame,
		.name = wait_plain_name(frame->name),
		.has_scope = strpbrk(frame->name, ":.;") != NULL,
	};
}

static bool matches(const struct user_rule *rule, const struct subject *subject)
{
	if (rule->is_python != (subject->frame->kind == FRAME_KIND_PYTHON))
		return false;
	if (rule->is_python)
		return (!*rule->name || !strcmp(subject->name, rule->name)) &&
		       is_in_file(subject->frame->file, rule->file);
	if (*rule->name == '~' && !subject->has_scope)
		return false;
	if (!*subject->name && *rule->name)
		return false;
	return wait_name_matches(rule->name, subject->name) &&
	       (!rule->file || wait_module_begins(subject->frame->module, rule->file));
}

const struct user_rule *user_rule_find(const struct wait_frame *frame, enum wait_cause cause)
{
	struct subject subject = subject_of(frame);

	for (size_t i = 0; i < ARRAY_SIZE(user_rules); i++) {
		const struct user_rule *rule = &user_rules[i];

		if ((!rule->causes || rule->causes & BIT(cause)) && matches(rule, &subject))
			return rule;
	}
	return NULL;
}
