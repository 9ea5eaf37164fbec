// SPDX-License-Identifier: Apache-2.0
// Stacks of real kernels and programs with their wait classes, and look-alikes beside them.
#include "agent/stacks/wait_class_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

enum { FRAMES = 32 };

/*
 * "k:name|module:name|file.py:name": the leaf first. "k" is the kernel, ".py" Python, "jit" JIT
 * code; a native function's name may be empty.
 */
static enum wait_class class_of(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	struct wait_frame frames[FRAMES];
	uint32_t count = 0;
	char *rest = copy;

	for (char *frame; (frame = strsep(&rest, "|"));) {
		char *name = strchr(frame, ':');

		assert_non_null(name);
		assert_true(count < FRAMES);
		*name++ = 0;
		frames[count] = (struct wait_frame){ FRAME_KIND_NATIVE, name, "", frame };
		if (!strcmp(frame, "k") || frame[0] == '[') {
			frames[count].kind = FRAME_KIND_KERNEL;
			if (frame[0] == 'k')
				frames[count].module = "[kernel]";
		} else if (strstr(frame, ".py")) {
			frames[count] = (struct wait_frame){ FRAME_KIND_PYTHON, name, frame, "" };
		} else if (!strcmp(frame, "jit")) {
			frames[count].kind = FRAME_KIND_JIT;
		}
		count++;
	}
	return wait_class_of(frames, count);
}

#define FUTEX   "k:futex_do_wait|k:__futex_wait|k:futex_wait|k:do_futex|k:__x64_sys_futex|"
#define FUTEX61 "k:futex_wait_queue|k:futex_wait|k:do_futex|k:__x64_sys_futex|"
#define EPOLL   "k:do_epoll_wait|k:__x64_sys_epoll_wait|libc.so.6:epoll_wait|"
#define POLL    "k:poll_schedule_timeout.constprop.0|k:do_sys_poll|k:__x64_sys_poll|libc.so.6:__poll|"
#define SELECT  "k:poll_schedule_timeout.constprop.0|k:do_select|k:core_sys_select|libc.so.6:select|"
#define COND    FUTEX "/lib/libc.so.6:|/lib/libc.so.6:pthread_cond_wait@@GLIBC_2.3.2|"
#define TIMED   FUTEX "/lib/libc.so.6:|/lib/libc.so.6:pthread_cond_timedwait|"
#define SEM     FUTEX "/lib/libc.so.6:|/lib/libc.so.6:__new_sem_wait_slow64.constprop.0|"
#define PIPE    "k:anon_pipe_read|k:vfs_read|k:ksys_read|libc.so.6:read|"
#define START   "|/lib/libc.so.6:start_thread|/lib/libc.so.6:clone3"
#define PYLOCK  SEM "/usr/bin/python3.11:PyThread_acquire_lock_timed|/usr/bin/python3.11:|"
#define THREADS \
	"|threading.py:Thread.run|threading.py:Thread._bootstrap_inner|threading.py:_bootstrap"

static const struct {
	const char *what;
	const char *stack;
	enum wait_class class;
} rows[] = {
	// Kernel frames only, with the names of 6.18, 6.12 and 6.1
	{ "no names at all", "k:|k:|app:", WAIT_CLASS_OTHER },
	{ "a mutex", FUTEX "libc.so.6:__lll_lock_wait|libc.so.6:pthread_mutex_lock|app:f",
	  WAIT_CLASS_LOCK },
	{ "a futex of which no user frame is known",
	  "k:futex_do_wait|k:__futex_wait|k:futex_wait|k:do_futex|k:__x64_sys_futex",
	  WAIT_CLASS_OTHER },
	{ "a futex whose callers are lost", FUTEX "/lib/libc.so.6:__GI___lll_lock_wait",
	  WAIT_CLASS_OTHER },
	{ "a lock of the kernel's needs none", "k:rwsem_down_write_slowpath|k:down_write",
	  WAIT_CLASS_LOCK },
	{ "a mutex, 6.1", FUTEX61 "libc.so.6:|app:f", WAIT_CLASS_LOCK },
	{ "System V", "k:__do_semtimedop|k:do_semtimedop|app:f", WAIT_CLASS_LOCK },
	{ "flock", "k:locks_lock_inode_wait|k:__do_sys_flock|app:f", WAIT_CLASS_LOCK },
	{ "a mutex of the kernel's in a pipe", "k:__mutex_lock.constprop.0|k:anon_pipe_write|app:f",
	  WAIT_CLASS_PIPE },
	{ "mmap's lock", "k:rwsem_down_write_slowpath|k:down_write_killable|k:vm_mmap_pgoff|app:f",
	  WAIT_CLASS_LOCK },
	{ "a read, page cache", "k:io_schedule|k:folio_wait_bit_common|k:filemap_get_pages|app:f",
	  WAIT_CLASS_DISK },
	{ "a read, io_schedule not there", "k:folio_wait_bit_common|k:filemap_read|app:f",
	  WAIT_CLASS_DISK },
	{ "direct", "k:blkdev_direct_IO|k:vfs_read|app:f", WAIT_CLASS_DISK },
	{ "fsync", "k:jbd2_log_wait_commit|k:ext4_sync_file|k:do_fsync|app:f", WAIT_CLASS_DISK },
	{ "an inode's lock",
	  "k:rwsem_down_write_slowpath|k:down_write|k:ext4_buffered_write_iter|app:f",
	  WAIT_CLASS_DISK },
	{ "a fault, from disk",
	  "k:io_schedule|k:folio_wait_bit_common|k:filemap_fault|k:__do_fault|k:handle_mm_fault|"
	  "k:do_user_addr_fault|k:exc_page_fault|k:asm_exc_page_fault|app:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "a fault, mmap's lock",
	  "k:rwsem_down_read_slowpath|k:lock_mm_and_find_vma|k:exc_page_fault|a:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "a fault of a system call's", "k:io_schedule|k:exc_page_fault|k:anon_pipe_write|a:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "TCP", "k:sk_wait_data|k:tcp_recvmsg_locked|k:tcp_recvmsg|k:inet_recvmsg|app:f",
	  WAIT_CLASS_NETWORK },
	{ "TCP, inlined", "k:tcp_recvmsg_locked|k:tcp_recvmsg|app:f", WAIT_CLASS_NETWORK },
	{ "connect", "k:__inet_stream_connect|k:inet_stream_connect|app:f", WAIT_CLASS_NETWORK },
	{ "UDP", "k:__skb_wait_for_more_packets|k:__skb_recv_udp|k:udp_recvmsg|app:f",
	  WAIT_CLASS_NETWORK },
	{ "a Unix socket", "k:unix_stream_read_generic|k:unix_stream_recvmsg|app:f",
	  WAIT_CLASS_NETWORK },
	{ "accept", "k:inet_csk_accept|k:inet_accept|k:do_accept|libc.so.6:accept|app:serve",
	  WAIT_CLASS_IDLE },
	{ "accept of a Unix socket",
	  "k:__skb_wait_for_more_packets|k:__skb_recv_datagram|k:unix_accept|k:do_accept|app:f",
	  WAIT_CLASS_IDLE },
	{ "sleep", "k:hrtimer_nanosleep|k:common_nsleep|libc.so.6:clock_nanosleep|app:f",
	  WAIT_CLASS_SLEEP },
	{ "sleep, 6.1", "k:do_nanosleep|k:hrtimer_nanosleep|app:f", WAIT_CLASS_SLEEP },
	{ "a timer's descriptor", "k:do_wait_intr_irq|k:timerfd_read_iter|k:vfs_read|app:f",
	  WAIT_CLASS_SLEEP },
	{ "a pipe", PIPE "app:f", WAIT_CLASS_PIPE },
	{ "a pipe, 6.12", "k:pipe_read|k:vfs_read|app:f", WAIT_CLASS_PIPE },
	{ "an eventfd, whose leaf looks like a child's",
	  "k:do_wait_intr_irq|k:eventfd_read|k:vfs_read|app:f", WAIT_CLASS_PIPE },
	{ "a child", "k:do_wait|k:kernel_wait4|libc.so.6:wait4|app:f", WAIT_CLASS_CHILD },
	{ "vfork", "k:kernel_clone|k:__do_sys_vfork|libc.so.6:vfork|app:f", WAIT_CLASS_CHILD },
	{ "SIGSTOP", "k:do_signal_stop|k:get_signal|k:arch_do_signal_or_restart|app:f",
	  WAIT_CLASS_STOPPED },
	{ "a debugger", "k:ptrace_stop|k:get_signal|app:f", WAIT_CLASS_STOPPED },
	{ "a frozen group", "k:get_signal|k:arch_do_signal_or_restart|app:f", WAIT_CLASS_STOPPED },
	{ "a lock at its end, by a signal",
	  "k:rwsem_down_read_slowpath|k:down_read|k:exit_mm|k:do_exit|k:do_group_exit|k:get_signal|"
	  "app:f",
	  WAIT_CLASS_LOCK },
	{ "others' core dump", "k:coredump_task_exit|k:do_exit|k:get_signal|app:f",
	  WAIT_CLASS_STOPPED },
	{ "exec, for other threads", "k:de_thread|k:begin_new_exec|k:load_elf_binary|app:f",
	  WAIT_CLASS_CHILD },
	{ "a lock, while a thread is made",
	  "k:percpu_rwsem_wait|k:__percpu_down_read|k:cgroup_css_set_fork|k:copy_process|"
	  "k:kernel_clone|k:__do_sys_clone3|libc.so.6:clone3|app:f",
	  WAIT_CLASS_LOCK },
	{ "a group's memory.high",
	  "k:schedule_timeout_killable|k:__mem_cgroup_handle_over_high|k:exit_to_user_mode_loop|"
	  "app:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "for memory, to make a thread",
	  "k:reclaim_throttle|k:shrink_node|k:try_to_free_mem_cgroup_pages|k:copy_process|"
	  "k:kernel_clone|app:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "userfaultfd, who faults",
	  "k:handle_userfault|k:do_anonymous_page|k:handle_mm_fault|k:exc_page_fault|app:f",
	  WAIT_CLASS_PAGE_FAULT },
	{ "userfaultfd, who serves", "k:userfaultfd_read_iter|k:vfs_read|app:f", WAIT_CLASS_IDLE },
	{ "a guest without work",
	  "[kvm]:kvm_vcpu_block|[kvm]:kvm_vcpu_halt|k:__x64_sys_ioctl|qemu:f", WAIT_CLASS_IDLE },
	{ "several futexes", "k:futex_wait_multiple|k:__do_sys_futex_waitv|libc.so.6:syscall|app:f",
	  WAIT_CLASS_LOCK },
	{ "futex_wait", "k:__futex_wait|k:__x64_sys_futex_wait|libc.so.6:syscall|app:f",
	  WAIT_CLASS_LOCK },
	{ "epoll_pwait2", "k:ep_poll|k:do_epoll_pwait|k:__x64_sys_epoll_pwait2|app:f",
	  WAIT_CLASS_IDLE },
	{ "ppoll", "k:do_sys_poll|k:__x64_sys_ppoll|libc.so.6:ppoll|app:f", WAIT_CLASS_POLL },
	{ "a sleep that goes on", "k:hrtimer_nanosleep_restart|libc.so.6:clock_nanosleep|app:f",
	  WAIT_CLASS_SLEEP },
	{ "a sleep by an alarm's clock", "k:alarm_timer_nsleep|k:__x64_sys_clock_nanosleep|app:f",
	  WAIT_CLASS_SLEEP },
	{ "a message queue", "k:do_msgrcv|k:__x64_sys_msgrcv|app:f", WAIT_CLASS_PIPE },
	{ "POSIX's message queue", "k:wq_sleep|k:do_mq_timedreceive|app:f", WAIT_CLASS_PIPE },
	{ "a terminal that nobody reads", "k:n_tty_write|k:file_tty_write.isra.0|k:vfs_write|app:f",
	  WAIT_CLASS_PIPE },
	{ "NFS", "k:rpc_wait_bit_killable|k:__wait_on_bit|[nfs]:nfs4_call_sync|app:f",
	  WAIT_CLASS_NETWORK },
	{ "SMB", "[cifs]:cifs_send_recv|[cifs]:smb2_query_info|app:f", WAIT_CLASS_NETWORK },
	{ "a watcher's answer", "k:fanotify_handle_event|k:fsnotify|k:do_dentry_open|app:f",
	  WAIT_CLASS_DISK },
	{ "pause, by its other name", "k:__x64_sys_pause|app:f", WAIT_CLASS_IDLE },
	{ "sigwait", "k:do_sigtimedwait.isra.0|k:__x64_sys_rt_sigtimedwait|libc.so.6:sigwait|app:f",
	  WAIT_CLASS_IDLE },
	{ "pause", "k:__do_sys_pause|app:f", WAIT_CLASS_IDLE },
	{ "a terminal", "k:wait_woken|k:n_tty_read|k:tty_read|k:vfs_read|bash:f", WAIT_CLASS_IDLE },
	{ "the GPU driver", "[nvidia]:os_acquire_semaphore|[nvidia]:_nv0|k:__x64_sys_ioctl|app:f",
	  WAIT_CLASS_GPU },
	{ "a module with a similar name", "[xenfs]:f|k:pipe_read|app:f", WAIT_CLASS_PIPE },
	{ "select", SELECT "app:f", WAIT_CLASS_POLL },
	{ "poll", POLL "app:f", WAIT_CLASS_POLL },
	{ "epoll", EPOLL "app:main_loop", WAIT_CLASS_IDLE },
	// Without kernel frames
	{ "a call's name: a lock", "libc.so.6:__pthread_mutex_lock|app:f", WAIT_CLASS_LOCK },
	{ "a call's name below the leaf", "libc.so.6:|libc.so.6:__poll|app:f", WAIT_CLASS_POLL },
	{ "a program's function called poll", "app:run|app:poll|app:main", WAIT_CLASS_OTHER },
	// CPython
	{ "the GIL",
	  TIMED "/usr/bin/python3.11:take_gil|/usr/bin/python3.11:PyEval_RestoreThread|app.py:f",
	  WAIT_CLASS_GIL },
	{ "the GIL's own mutex",
	  FUTEX "/lib/libc.so.6:__GI___lll_lock_wait|/lib/libc.so.6:__pthread_mutex_lock|"
		"/usr/bin/python3.11:take_gil|/usr/bin/python3.11:PyEval_RestoreThread|app.py:f",
	  WAIT_CLASS_GIL },
	{ "an extension's mutex under Python",
	  FUTEX "/lib/libc.so.6:__GI___lll_lock_wait|/lib/libc.so.6:__pthread_mutex_lock|"
		"/x/ext.so:cache_get|/usr/bin/python3.11:cfunction_call|app.py:f",
	  WAIT_CLASS_LOCK },
	{ "the GIL, 6.1", FUTEX61 "libc.so.6:pthread_cond_timedwait|libpython3.12.so.1.0:|app.py:f",
	  WAIT_CLASS_GIL },
	{ "the GIL, between instructions", TIMED "app.py:f|app.py:<module>", WAIT_CLASS_GIL },
	{ "the GIL, wanted by an extension",
	  TIMED "/usr/bin/python3.13:_PyThreadState_Attach|/usr/bin/python3.13:PyGILState_Ensure|"
		"ext.so:call",
	  WAIT_CLASS_GIL },
	{ "an extension's own condition", COND "/x/ext.so:wait_result|app.py:f", WAIT_CLASS_LOCK },
	{ "a Python lock", PYLOCK "app.py:f|app.py:main", WAIT_CLASS_LOCK },
	{ "a condition in someone's code",
	  PYLOCK "threading.py:Condition.wait|app.py:f|app.py:main", WAIT_CLASS_LOCK },
	{ "a pool's worker",
	  PYLOCK "/usr/lib/python3.11/concurrent/futures/thread.py:_worker" THREADS,
	  WAIT_CLASS_IDLE },
	{ "a lock in a pool's work",
	  PYLOCK "app.py:task|/usr/lib/concurrent/futures/thread.py:_WorkItem.run|"
		 "/usr/lib/concurrent/futures/thread.py:_worker" THREADS,
	  WAIT_CLASS_LOCK },
	{ "a function called _worker elsewhere", PYLOCK "app/thread.py:_worker|app.py:main",
	  WAIT_CLASS_LOCK },
	{ "a queue, in a thread's target",
	  PYLOCK "threading.py:Condition.wait|/usr/lib/queue.py:Queue.get|app.py:consume" THREADS,
	  WAIT_CLASS_IDLE },
	{ "a queue, deeper in a thread",
	  PYLOCK "threading.py:wait|/usr/lib/queue.py:get|app.py:ask|app.py:serve" THREADS,
	  WAIT_CLASS_LOCK },
	{ "a queue, in the main thread",
	  PYLOCK "threading.py:wait|/usr/lib/queue.py:get|app.py:main|app.py:<module>",
	  WAIT_CLASS_LOCK },
	{ "a thread's end",
	  PYLOCK "threading.py:Thread._wait_for_tstate_lock|threading.py:Thread.join|a.py:f",
	  WAIT_CLASS_CHILD },
	{ "a multiprocessing worker",
	  PIPE "/usr/bin/python3.11:|multiprocessing/connection.py:Connection._recv|"
	       "multiprocessing/connection.py:recv_bytes|multiprocessing/queues.py:SimpleQueue.get|"
	       "multiprocessing/pool.py:worker|multiprocessing/process.py:run",
	  WAIT_CLASS_IDLE },
	{ "a multiprocessing connection",
	  PIPE "/usr/bin/python3.11:|multiprocessing/connection.py:_recv|app.py:ask",
	  WAIT_CLASS_PIPE },
	{ "asyncio on select",
	  SELECT "selectors.py:select|asyncio/base_events.py:BaseEventLoop._run_once",
	  WAIT_CLASS_IDLE },
	{ "a socket with a time limit",
	  POLL "/usr/bin/python3.11:|/usr/lib/ssl.py:SSLSocket.read|a.py:f", WAIT_CLASS_NETWORK },
	{ "a socket with a time limit, by CPython's names",
	  POLL "python3.11:sock_call_impl|python3.11:sock_recv|app.py:f", WAIT_CLASS_NETWORK },
	{ "a connection that is kept",
	  "k:sk_wait_data|k:tcp_recvmsg|libc.so.6:recv|/usr/bin/"
	  "python3.11:|socket.py:SocketIO.readinto|"
	  "http/server.py:BaseHTTPRequestHandler.handle_one_request|http/server.py:handle",
	  WAIT_CLASS_IDLE },
	{ "a request's body",
	  "k:sk_wait_data|k:tcp_recvmsg|libc.so.6:recv|/usr/bin/"
	  "python3.11:|socket.py:SocketIO.readinto|"
	  "app.py:do_POST|http/server.py:BaseHTTPRequestHandler.handle_one_request",
	  WAIT_CLASS_NETWORK },
	{ "subprocess.communicate",
	  SELECT "selectors.py:select|subprocess.py:Popen._communicate|a.py:f", WAIT_CLASS_CHILD },
	// Other pools and loops
	{ "PyTorch's pool",
	  COND "libstdc++.so.6:std::condition_variable::wait(std::unique_lock&)|"
	       "libc10.so:c10::ThreadPool::main_loop(unsigned long)|libstdc++.so.6:" START,
	  WAIT_CLASS_IDLE },
	{ "PyTorch's pool at work",
	  COND
	  "libtorch.so:at::wait_for_it()|libtorch.so:std::_Function_handler<void ()>::_M_invoke|"
	  "libc10.so:c10::ThreadPool::main_loop(unsigned long)" START,
	  WAIT_CLASS_LOCK },
	{ "backward(), while a device's thread works",
	  COND "libtorch.so:torch::autograd::ReadyQueue::pop()|"
	       "libtorch.so:torch::autograd::Engine::thread_main(std::shared_ptr<x> const&)|"
	       "libtorch.so:torch::autograd::Engine::execute_with_graph_task(x)|app.py:train",
	  WAIT_CLASS_LOCK },
	{ "autograd's thread, by all its functions",
	  COND "libtorch.so:torch::autograd::ReadyQueue::pop()|"
	       "libtorch.so:torch::autograd::Engine::thread_main(std::shared_ptr<x> const&)|"
	       "libtorch.so:torch::autograd::Engine::thread_init(int)" START,
	  WAIT_CLASS_IDLE },
	{ "NCCL's watchdog",
	  COND "libtorch.so:c10d::ProcessGroupNCCL::watchdogHandler()|libtorch.so:x" START,
	  WAIT_CLASS_IDLE },
	{ "autograd's thread",
	  COND "libtorch.so:torch::autograd::ReadyQueue::pop()|libtorch.so:x" START,
	  WAIT_CLASS_IDLE },
	{ "OpenMP's dock, without names", FUTEX "/x/libgomp.so.1:|/x/libgomp.so.1:" START,
	  WAIT_CLASS_IDLE },
	{ "OpenMP's dock, in wheels",
	  FUTEX "/x/libgomp-a34b3233.so.1:|/x/libgomp-a34b3233.so.1:" START, WAIT_CLASS_IDLE },
	{ "OpenMP's barrier, without names",
	  FUTEX "/x/libgomp.so.1:|app:work._omp_fn.0|/x/libgomp.so.1:" START, WAIT_CLASS_LOCK },
	{ "OpenMP's barrier",
	  FUTEX "/x/libgomp.so.1:gomp_team_barrier_wait_end|app:work|"
		"/x/libgomp.so.1:gomp_thread_start" START,
	  WAIT_CLASS_LOCK },
	{ "LLVM's dock",
	  COND "libomp.so:__kmp_suspend_64|libomp.so:__kmp_fork_barrier(int, int)|app:x" START,
	  WAIT_CLASS_IDLE },
	{ "LLVM's barrier", COND "libomp.so:__kmp_suspend_64|libomp.so:__kmp_barrier|app:x" START,
	  WAIT_CLASS_LOCK },
	{ "OpenBLAS", COND "libopenblas.so.0:blas_thread_server" START, WAIT_CLASS_IDLE },
	{ "a thread of CUDA's own", POLL "/usr/lib/libcuda.so.550:|/usr/lib/libcuda.so.550:" START,
	  WAIT_CLASS_IDLE },
	{ "a call of CUDA's",
	  POLL "/usr/lib/libcuda.so.550:|/usr/lib/libcuda.so.550:|libcudart.so:|app:f",
	  WAIT_CLASS_GPU },
	{ "gRPC's queue", EPOLL "app:pollset_work|app:cq_next|app:f", WAIT_CLASS_IDLE },
	{ "gRPC's answer, by the exported name",
	  EPOLL
	  "libgrpc.so:grpc_pollset_work|libgrpc.so:|libgrpc.so:grpc_completion_queue_pluck|app:f",
	  WAIT_CLASS_NETWORK },
	{ "gRPC's answer", EPOLL "app:cq_pluck(grpc_completion_queue*)|app:f", WAIT_CLASS_NETWORK },
	{ "Node's worker", COND "node:uv_cond_wait|node:worker" START, WAIT_CLASS_IDLE },
	{ "Node's platform",
	  COND "node:uv_cond_wait|node:node::TaskQueue<node::Task>::BlockingPop()|"
	       "node:node::(anonymous namespace)::PlatformWorkerThread(void*)" START,
	  WAIT_CLASS_IDLE },
	{ "a condition of libuv's in someone's code", COND "app:uv_cond_wait|app:ask|app:main",
	  WAIT_CLASS_LOCK },
	{ "libuv's worker", COND "libuv.so.1:uv_cond_wait|libuv.so.1:worker" START,
	  WAIT_CLASS_IDLE },
	{ "someone's worker", COND "app:worker" START, WAIT_CLASS_IDLE },
	{ "someone's worker, without a name", COND "app:" START, WAIT_CLASS_IDLE },
	{ "someone's worker, deeper", COND "app:wait_for_it|app:worker" START, WAIT_CLASS_LOCK },
	{ "a mutex in a thread's first function",
	  FUTEX "libc.so.6:__lll_lock_wait|libc.so.6:pthread_mutex_lock|app:worker" START,
	  WAIT_CLASS_LOCK },
	{ "gRPC's queue, without names",
	  FUTEX
	  "libc.so.6:syscall|libabsl_synchronization.so.20220623:AbslInternalPerThreadSemWait|"
	  "libabsl_synchronization.so.20220623:|libgpr.so.29:gpr_cv_wait|libgrpc.so.29:|"
	  "libgrpc.so.29:grpc_pollset_work|libgrpc.so.29:|app:serve" START,
	  WAIT_CLASS_IDLE },
	{ "a thread of gRPC's",
	  FUTEX
	  "libc.so.6:syscall|libabsl_synchronization.so.2:|libgpr.so.29:gpr_cv_wait|libgrpc.so.29:|"
	  "libgpr.so.29:" START,
	  WAIT_CLASS_IDLE },
	{ "gRPC's answer, in Python",
	  EPOLL "/x/cygrpc.cpython-311-x86_64-linux-gnu.so:|grpc/_channel.py:_blocking|app.py:ask",
	  WAIT_CLASS_NETWORK },
	{ "gRPC's server, in Python",
	  FUTEX "libc.so.6:syscall|/x/cygrpc.cpython-311-x86_64-linux-gnu.so:|grpc/"
		"_server.py:_serve" THREADS,
	  WAIT_CLASS_IDLE },
	{ "a database's answer, by epoll",
	  EPOLL
	  "/usr/bin/python3.11:|psycopg/waiting.py:wait_epoll|psycopg/connection.py:wait|app.py:f",
	  WAIT_CLASS_NETWORK },
	{ "curl",
	  POLL "libcurl.so.4:|libcurl.so.4:curl_multi_poll|libcurl.so.4:curl_easy_perform|app:f",
	  WAIT_CLASS_NETWORK },
	{ "uvicorn's supervisor",
	  PYLOCK "threading.py:Condition.wait|threading.py:Event.wait|"
		 "uvicorn/supervisors/multiprocess.py:Multiprocess.run|uvicorn/main.py:run",
	  WAIT_CLASS_IDLE },
	{ "nginx", EPOLL "nginx:ngx_epoll_process_events|nginx:ngx_process_events_and_timers",
	  WAIT_CLASS_IDLE },
	{ "GLib", POLL "libglib-2.0.so.0:g_main_context_iterate.isra.0|app:main", WAIT_CLASS_IDLE },
	{ "PostgreSQL, a condition",
	  EPOLL "postgres:WaitEventSetWait|postgres:WaitLatch|postgres:ConditionVariableSleep",
	  WAIT_CLASS_LOCK },
	{ "PostgreSQL, a lock",
	  EPOLL "postgres:WaitEventSetWait|postgres:WaitLatch|postgres:ProcSleep",
	  WAIT_CLASS_LOCK },
	{ "Go, no work",
	  FUTEX
	  "app:runtime.futex.abi0|app:runtime.futexsleep|app:runtime.notesleep|app:runtime.mPark",
	  WAIT_CLASS_IDLE },
	{ "Go, cut short", FUTEX "app:runtime.futex.abi0", WAIT_CLASS_IDLE },
	{ "Go, the runtime's lock",
	  FUTEX "app:runtime.futex|app:runtime.futexsleep|app:runtime.lock2", WAIT_CLASS_LOCK },
	{ "Go's network", EPOLL "app:runtime.netpoll|app:runtime.findRunnable", WAIT_CLASS_IDLE },
	{ "tokio",
	  FUTEX "app:std::sys::pal::unix::futex::futex_wait|"
		"app:tokio::runtime::scheduler::multi_thread::worker::Context::park_timeout",
	  WAIT_CLASS_IDLE },
	{ "rayon", COND "app:std::sync::condvar::Condvar::wait|app:rayon_core::sleep::Sleep::sleep",
	  WAIT_CLASS_IDLE },
	{ "a Rust mutex",
	  FUTEX "app:std::sys::sync::mutex::futex::Mutex::lock_contended|app:app::work",
	  WAIT_CLASS_LOCK },
	{ "Java's pool",
	  COND "libjvm.so:Parker::park|libjvm.so:Unsafe_Park|jit:Ljdk/internal/misc/Unsafe;::park|"
	       "jit:Ljava/util/concurrent/locks/LockSupport;::park|"
	       "jit:Ljava/util/concurrent/LinkedBlockingQueue;::take|"
	       "jit:Ljava/util/concurrent/ThreadPoolExecutor;::getTask",
	  WAIT_CLASS_IDLE },
	{ "Tomcat's pool",
	  COND "libjvm.so:Parker::park|libjvm.so:Unsafe_Park|jit:Ljdk/internal/misc/Unsafe;::park|"
	       "jit:Lorg/apache/tomcat/util/threads/TaskQueue;::take|"
	       "jit:Ljava/util/concurrent/ThreadPoolExecutor;::getTask",
	  WAIT_CLASS_IDLE },
	{ "HotSpot's collector, no work",
	  SEM "libjvm.so:PosixSemaphore::wait()|libjvm.so:WorkerTaskDispatcher::worker_run_task()|"
	      "libjvm.so:WorkerThread::run()" START,
	  WAIT_CLASS_IDLE },
	{ "HotSpot's service thread",
	  COND "libjvm.so:PlatformMonitor::wait(long)|libjvm.so:Monitor::wait(long)|"
	       "libjvm.so:ServiceThread::service_thread_entry(JavaThread*, JavaThread*)" START,
	  WAIT_CLASS_IDLE },
	{ "Java's sleep",
	  TIMED "libjvm.so:PlatformEvent::park_nanos(long)|libjvm.so:JavaThread::sleep(long)|"
		"libjvm.so:JVM_Sleep|jit:Ljava/lang/Thread;::sleep",
	  WAIT_CLASS_SLEEP },
	{ "a Java thread's end",
	  COND
	  "libjvm.so:ObjectMonitor::wait(long, bool, JavaThread*)|"
	  "libjvm.so:ObjectSynchronizer::wait(Handle, long, JavaThread*)|libjvm.so:JVM_MonitorWait|"
	  "jit:Ljava/lang/Object;::wait|jit:Ljava/lang/Thread;::join|jit:Lapp/Main;::main",
	  WAIT_CLASS_CHILD },
	{ "a Java queue",
	  COND "libjvm.so:Parker::park|libjvm.so:Unsafe_Park|jit:Ljdk/internal/misc/Unsafe;::park|"
	       "jit:Ljava/util/concurrent/LinkedBlockingQueue;::take|jit:Lapp/Request;::answer",
	  WAIT_CLASS_LOCK },
	{ "a thread's end", FUTEX "libc.so.6:__pthread_clockjoin_ex|app:main", WAIT_CLASS_CHILD },
	{ "asynchronous I/O", "k:read_events|k:do_io_getevents|app:f", WAIT_CLASS_DISK },
	{ "asynchronous I/O, none there",
	  "k:read_events|k:do_io_getevents|libaio.so.1:|mysqld:LinuxAIOHandler::collect()|mysqld:f",
	  WAIT_CLASS_IDLE },
	{ "io_uring", "k:io_cqring_wait|k:__do_sys_io_uring_enter|app:f", WAIT_CLASS_DISK },
	{ "io_uring in an event loop",
	  "k:io_cqring_wait|k:__do_sys_io_uring_enter|libuv.so.1:uv__io_poll", WAIT_CLASS_IDLE },
};

TEST(each_stack_has_its_class)
{
	for EACH (row, rows)
		EXPECT_STR(wait_class_name(row->class), wait_class_name(class_of(row->stack)),
			   row->what);
}

// ---- stacks of this kernel ------------------------------------------------------------------

static int pipe_ends[2], socket_ends[2], locked_fd, epoll_fd;

static void wait_pipe(void)
{
	char byte;

	if (read(pipe_ends[0], &byte, 1) < 0)
		return;
}
static void wait_socket(void)
{
	char byte;

	recv(socket_ends[0], &byte, 1, 0);
}
static void wait_mutex(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
}
static void wait_flock(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", locked_fd);
	flock(open(path, O_RDONLY | O_CLOEXEC), LOCK_EX);
}
static void wait_sleep(void)
{
	sleep(100);
}
static void wait_poll(void)
{
	struct pollfd ends = { .fd = pipe_ends[0], .events = POLLIN };

	poll(&ends, 1, -1);
}
static void wait_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	select(pipe_ends[0] + 1, &set, NULL, NULL, NULL);
}
static void wait_epoll(void)
{
	struct epoll_event event;

	epoll_wait(epoll_fd, &event, 1, -1);
}
static void wait_accept(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); // bound by listen()

	listen(fd, 1);
	accept(fd, NULL, NULL);
}
static void wait_child(void)
{
	if (fork() == 0) {
		sleep(5);
		_exit(0);
	}
	wait(NULL);
}
static void wait_stopped(void)
{
	raise(SIGSTOP);
}
static void wait_signal(void)
{
	pause();
}
static void wait_eventfd(void)
{
	eventfd_t value;

	eventfd_read(eventfd(0, 0), &value);
}

static const struct {
	const char *what;
	void (*wait)(void);
	enum wait_class class;
} waits[] = {
	{ "pipe", wait_pipe, WAIT_CLASS_PIPE },
	{ "socket", wait_socket, WAIT_CLASS_NETWORK },
	{ "mutex", wait_mutex, WAIT_CLASS_LOCK },
	{ "flock", wait_flock, WAIT_CLASS_LOCK },
	{ "sleep", wait_sleep, WAIT_CLASS_SLEEP },
	{ "poll", wait_poll, WAIT_CLASS_POLL },
	{ "select", wait_select, WAIT_CLASS_POLL },
	{ "epoll", wait_epoll, WAIT_CLASS_IDLE },
	{ "accept", wait_accept, WAIT_CLASS_IDLE },
	{ "child", wait_child, WAIT_CLASS_CHILD },
	{ "stopped", wait_stopped, WAIT_CLASS_STOPPED },
	{ "pause", wait_signal, WAIT_CLASS_IDLE },
	{ "eventfd", wait_eventfd, WAIT_CLASS_PIPE },
};

// Lines are "[<0>] name+0x12/0x34 [module]". Returns how many there are; 0: it may not be read.
static uint32_t read_kernel_stack(pid_t pid, char text[4096], struct wait_frame frames[FRAMES])
{
	uint32_t count = 0;
	char path[64], *rest = text;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, text, 4095);

	text[size < 0 ? 0 : size] = 0;
	for (char *line; (line = strsep(&rest, "\n")) && count < FRAMES - 1;) {
		char *name = strchr(line, ' '), *offset = strchr(line, '+');

		if (!name || !offset)
			continue;
		*offset = 0;
		frames[count++] =
			(struct wait_frame){ FRAME_KIND_KERNEL, name + 1, "", "[kernel]" };
	}
	return count;
}

// Until the child blocks at its wait site, which takes a while on a loaded machine.
static enum wait_class class_of_process(pid_t pid, enum wait_class expected)
{
	struct wait_frame frames[FRAMES];
	enum wait_class class = WAIT_CLASS_OTHER;
	char text[4096];

	for (int i = 0; i < 1000; i++) {
		uint32_t count = read_kernel_stack(pid, text, frames);

		frames[count++] = (struct wait_frame){ FRAME_KIND_NATIVE, "f", "", "app" };
		class = wait_class_of(frames, count);
		if (class == expected)
			break;
		usleep(10000);
	}
	return class;
}

TEST(classifies_stacks_of_this_kernel)
{
	char path[] = "/tmp/cairn-wait-XXXXXX";

	if (geteuid() || access("/proc/self/stack", R_OK)) {
		printf("# SKIP needs root and /proc/PID/stack\n");
		return;
	}
	assert_int_equal(0, pipe2(pipe_ends, O_CLOEXEC));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_ends));
	locked_fd = mkstemp(path);
	assert_true(locked_fd >= 0 && flock(locked_fd, LOCK_EX) == 0);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for EACH (row, waits) {
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			row->wait();
			_exit(0);
		}
		enum wait_class class = class_of_process(pid, row->class);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		EXPECT_STR(wait_class_name(row->class), wait_class_name(class), row->what);
	}
	unlink(path);
	close(locked_fd);
	close(epoll_fd);
	for (int i = 0; i < 2; i++) {
		close(pipe_ends[i]);
		close(socket_ends[i]);
	}
}

// ---- stacks of profiles ---------------------------------------------------------------------

static uint32_t add_location(struct profile *profile, enum frame_kind kind, const char *name,
			     const char *module)
{
	struct location location = { .kind = kind, .id = id128_of(module, strlen(module)) };
	struct line line = { 0 };
	uint32_t at = 0;

	profile_add_string(profile, module, &location.module);
	profile_add_string(profile, name, &line.name);
	assert_int_equal(0, profile_add_location(profile, &location, &line, *name != 0, &at));
	return at;
}

TEST(classifies_again_when_names_come)
{
	struct wait_class_cache *cache = wait_class_cache_new();
	struct profile *profile = profile_new(1);
	uint32_t locations[3], stack;

	locations[0] = add_location(profile, FRAME_KIND_KERNEL, "futex_do_wait", "[kernel]");
	locations[1] = add_location(profile, FRAME_KIND_NATIVE, "", "/x/libc10.so");
	locations[2] = add_location(profile, FRAME_KIND_NATIVE, "main", "/x/app");
	assert_int_equal(0, profile_add_stack(profile, locations, 3, STACK_END_COMPLETE, &stack));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(WAIT_CLASS_LOCK,
			  wait_class_cache_find(cache, profile, &profile->stacks[stack]),
			  "unnamed");
	add_location(profile, FRAME_KIND_NATIVE, "c10::ThreadPool::main_loop(unsigned long)",
		     "/x/libc10.so");
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(WAIT_CLASS_IDLE,
			  wait_class_cache_find(cache, profile, &profile->stacks[stack]), "named");
	profile_free(profile);
	wait_class_cache_free(cache);
}

TEST(a_full_cache_is_emptied)
{
	struct wait_class_cache *cache = wait_class_cache_new();
	struct profile *profile = profile_new(1);
	uint32_t location = add_location(profile, FRAME_KIND_KERNEL, "anon_pipe_read", "[kernel]");
	uint32_t locations[2] = { location, 0 }, stack;
	char module[32];

	for (uint32_t i = 0; i < WAIT_CLASSES_MAX + 100; i++) {
		snprintf(module, sizeof(module), "module%u", i);
		locations[1] = add_location(profile, FRAME_KIND_NATIVE, "f", module);
		assert_int_equal(
			0, profile_add_stack(profile, locations, 2, STACK_END_COMPLETE, &stack));
		assert_int_equal(WAIT_CLASS_PIPE,
				 wait_class_cache_find(cache, profile, &profile->stacks[stack]));
	}
	profile_free(profile);
	wait_class_cache_free(cache);
}

RUN_TESTS(cmocka_unit_test(each_stack_has_its_class),
	  cmocka_unit_test(classifies_stacks_of_this_kernel),
	  cmocka_unit_test(classifies_again_when_names_come),
	  cmocka_unit_test(a_full_cache_is_emptied))
