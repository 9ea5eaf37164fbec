// SPDX-License-Identifier: Apache-2.0
// Walks random chains of calls in Rust and writes each down first, as chains.c does:
//
//     chains [--seconds S] [--warm-up S] [--seed N]
//
// Paths are as walk.h says. A name that has blanks, or that says more in one way of mangling than in the
// other, is a regular expression.
use std::arch::asm;
use std::collections::HashMap;
use std::fmt::Write;
use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::Instant;

const STEPS_MAX: u64 = 20; // of one chain
const RECURSION_MAX: u64 = 20;
const NS_MIN: u64 = 4_000_000; // a chain's leaf burns between these
const NS_MAX: u64 = 30_000_000;
const STRETCH_MAX: u64 = 8; // seconds last no longer than so many

#[repr(C)]
struct Timespec {
    seconds: i64,
    ns: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn prctl(option: i32, name: *const u8) -> i32;
    fn qsort(base: *mut i32, count: usize, size: usize, compare: extern "C" fn(*const i32, *const i32) -> i32);
}

pub struct Walk {
    chain: Vec<&'static Step>,
    at: usize,
    recursion: u64,
    ns: u64,
    random: u64,
}

struct Step {
    function: fn(&mut Walk),
    path: &'static str,
}

/// The value is needed: what was called before is no jump, and functions differ by it.
#[inline(always)]
fn keep<T>(value: &T) {
    unsafe { asm!("/* {0} */", in(reg) value, options(nostack, preserves_flags)) }
}

#[inline(always)]
fn call_next(walk: &mut Walk) {
    let step = walk.chain[walk.at];
    walk.at += 1;
    (step.function)(walk);
}

macro_rules! go_on {
    ($walk:expr) => {
        call_next($walk);
        keep(&(line!(), &$walk.at));
    };
}

// ---- steps ----------------------------------------------------------------------------------

#[inline(never)]
fn step_plain(walk: &mut Walk) {
    go_on!(walk);
}

#[inline(never)]
fn step_big_frame(walk: &mut Walk) {
    let block = [walk.at as u8; 20000];
    keep(&block);
    go_on!(walk);
    keep(&block);
}

#[inline(never)]
fn generic<T: Clone>(walk: &mut Walk, value: T) {
    let kept = value.clone();
    go_on!(walk);
    keep(&kept);
}

#[inline(never)]
fn step_generic(walk: &mut Walk) {
    generic(walk, 7u64);
    keep(&line!());
}

#[inline(never)]
fn step_generic_string(walk: &mut Walk) {
    generic(walk, String::from("seven"));
    keep(&line!());
}

mod kitchen {
    use super::{call_next, keep, Walk};

    pub trait Cook {
        fn stir(&self, walk: &mut Walk);
    }

    pub struct Baker;

    impl Cook for Baker {
        #[inline(never)]
        fn stir(&self, walk: &mut Walk) {
            go_on!(walk);
        }
    }

    pub struct Pot<T> {
        pub spice: T,
    }

    impl<T: Copy> Pot<T> {
        #[inline(never)]
        pub fn simmer(&mut self, walk: &mut Walk) {
            let kept = self.spice;
            go_on!(walk);
            self.spice = kept;
        }
    }

    pub struct Apron<'a> {
        pub walk: &'a mut Walk,
    }

    impl<'a> Drop for Apron<'a> {
        #[inline(never)]
        fn drop(&mut self) {
            go_on!(self.walk);
        }
    }
}

#[inline(never)]
fn step_dyn(walk: &mut Walk) {
    let cook: Box<dyn kitchen::Cook> = Box::new(kitchen::Baker);
    keep(&&cook);
    cook.stir(walk);
    keep(&line!());
}

#[inline(never)]
fn step_method_of_generic(walk: &mut Walk) {
    let mut pot = kitchen::Pot { spice: 1.5f64 };
    pot.simmer(walk);
    keep(&pot.spice);
}

#[inline(never)]
fn step_closure(walk: &mut Walk) {
    let taste: Box<dyn Fn(&mut Walk)> = Box::new(|walk| {
        go_on!(walk);
    });
    keep(&&taste);
    taste(walk);
    keep(&line!());
}

#[inline(never)]
fn recurse(walk: &mut Walk, depth: u64) {
    if depth > 1 {
        recurse(walk, depth - 1);
        keep(&depth);
    } else {
        go_on!(walk);
    }
}

#[inline(never)]
fn step_recursion(walk: &mut Walk) {
    recurse(walk, walk.recursion);
    keep(&line!());
}

#[inline(never)]
fn from_sort(walk: &mut Walk) {
    go_on!(walk);
}

#[inline(never)]
fn step_sort(walk: &mut Walk) {
    let mut numbers = [5, 2, 4, 1, 3];
    let mut called = false;
    numbers.sort_by(|a, b| {
        if !called {
            called = true;
            from_sort(walk);
        }
        a.cmp(b)
    });
    keep(&numbers);
}

thread_local!(static CURRENT: std::cell::Cell<*mut Walk> = std::cell::Cell::new(std::ptr::null_mut()));

#[inline(never)]
extern "C" fn from_qsort(a: *const i32, b: *const i32) -> i32 {
    let current = CURRENT.with(|current| current.replace(std::ptr::null_mut()));
    if !current.is_null() {
        let walk = unsafe { &mut *current };
        go_on!(walk);
    }
    unsafe { *a - *b }
}

#[inline(never)]
fn step_qsort(walk: &mut Walk) {
    let mut numbers = [5, 2, 4, 1, 3];
    CURRENT.with(|current| current.set(walk));
    unsafe { qsort(numbers.as_mut_ptr(), numbers.len(), 4, from_qsort) };
    keep(&numbers);
}

#[inline(never)]
fn throw_plate(plate: u32) {
    if plate > 0 {
        resume_unwind(Box::new(plate));
    }
}

#[inline(never)]
fn step_catch(walk: &mut Walk) {
    let caught = catch_unwind(|| throw_plate(1)).is_err();
    go_on!(walk);
    keep(&caught);
}

/// The rest of the chain runs in a destructor while a panic is on its way.
#[inline(never)]
fn wear_apron(walk: &mut Walk) {
    let apron = kitchen::Apron { walk };
    throw_plate(2);
    keep(&&apron);
}

#[inline(never)]
fn step_unwinding(walk: &mut Walk) {
    let caught = catch_unwind(AssertUnwindSafe(|| wear_apron(walk))).is_err();
    keep(&caught);
}

async fn awaited(walk: &mut Walk) {
    go_on!(walk);
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[inline(never)]
fn step_async(walk: &mut Walk) {
    let waker = Arc::new(Nobody).into();
    let mut future: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(awaited(walk));
    keep(&&future);
    let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    keep(&done);
}

static STEPS: [Step; 13] = [
    Step { function: step_plain, path: "chains::step_plain" },
    Step { function: step_big_frame, path: "chains::step_big_frame" },
    Step { function: step_generic, path: "chains::step_generic /^chains::generic(::<u64>)?$/" },
    Step {
        function: step_generic_string,
        path: "chains::step_generic_string /^chains::generic(::<alloc::string::String>)?$/",
    },
    Step {
        function: step_dyn,
        path: "chains::step_dyn /^<chains::kitchen::Baker.as.chains::kitchen::Cook>::stir$/",
    },
    Step {
        function: step_method_of_generic,
        path: "chains::step_method_of_generic /^<?chains::kitchen::Pot<(T>|f64>>)::simmer$/",
    },
    Step { function: step_closure, path: "chains::step_closure ~? /^chains::step_closure::{.*closure.*}$/" },
    Step { function: step_recursion, path: "chains::step_recursion chains::recurse*" },
    Step { function: step_sort, path: "chains::step_sort ~? chains::from_sort" },
    Step { function: step_qsort, path: "chains::step_qsort ~ chains::from_qsort" },
    Step { function: step_catch, path: "chains::step_catch" },
    Step {
        function: step_unwinding,
        path: "chains::step_unwinding ~? chains::wear_apron ~? \
               /^<chains::kitchen::Apron.as.core::ops::drop::Drop>::drop$/",
    },
    Step { function: step_async, path: "chains::step_async ~? /^chains::awaited::{.*closure.*}$/" },
];

// ---- leaves ---------------------------------------------------------------------------------

const THREAD_CLOCK: i32 = 3; // CLOCK_THREAD_CPUTIME_ID

#[inline(always)]
fn thread_cpu_ns() -> u64 {
    let mut now = Timespec { seconds: 0, ns: 0 };
    unsafe { clock_gettime(THREAD_CLOCK, &mut now) };
    now.seconds as u64 * 1_000_000_000 + now.ns as u64
}

macro_rules! burn {
    ($walk:expr, $round:expr) => {
        let end = thread_cpu_ns() + $walk.ns;
        while thread_cpu_ns() < end {
            $round
        }
    };
}

#[inline(never)]
fn leaf_spin(walk: &mut Walk) {
    let mut number = walk.random | 1;
    burn!(walk, {
        for _ in 0..3000 {
            number = number.wrapping_mul(3);
            keep(&number);
        }
    });
}

#[inline(never)]
fn leaf_format(walk: &mut Walk) {
    let mut text = String::new();
    burn!(walk, {
        text.clear();
        for i in 0..20 {
            write!(text, "{:>8} {:.3} {:?}", i, walk.random as f64, "text").unwrap();
        }
        keep(&text.len());
    });
}

#[inline(never)]
fn leaf_map(walk: &mut Walk) {
    let mut counts = HashMap::new();
    burn!(walk, {
        for _ in 0..100 {
            *counts.entry(random_below(&mut walk.random, 500).to_string()).or_insert(0u32) += 1;
        }
    });
    keep(&counts.len());
}

#[inline(never)]
fn leaf_sort(walk: &mut Walk) {
    burn!(walk, {
        let mut numbers: Vec<u64> = (0..500).map(|_| next_random(&mut walk.random)).collect();
        numbers.sort();
        keep(&numbers.len());
    });
}

static LEAVES: [Step; 4] = [
    Step { function: leaf_spin, path: "chains::leaf_spin ~?" },
    Step { function: leaf_format, path: "chains::leaf_format ~?" },
    Step { function: leaf_map, path: "chains::leaf_map ~?" },
    Step { function: leaf_sort, path: "chains::leaf_sort ~?" },
];

// ---- chains ---------------------------------------------------------------------------------

/// splitmix64, Steele, Lea and Flood 2014.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e3779b97f4a7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

fn random_below(state: &mut u64, limit: u64) -> u64 {
    next_random(state) % limit
}

fn draw_chain(walk: &mut Walk) {
    walk.chain.clear();
    walk.recursion = 1 + random_below(&mut walk.random, RECURSION_MAX);
    walk.ns = NS_MIN + random_below(&mut walk.random, NS_MAX - NS_MIN);
    walk.at = 0;
    for _ in 0..1 + random_below(&mut walk.random, STEPS_MAX) {
        walk.chain.push(&STEPS[random_below(&mut walk.random, STEPS.len() as u64) as usize]);
    }
    walk.chain.push(&LEAVES[random_below(&mut walk.random, LEAVES.len() as u64) as usize]);
}

fn write_down(walk: &Walk) {
    let mut line = String::from("chain chains::main chains::run_chain");
    for step in &walk.chain {
        line.push(' ');
        line.push_str(step.path);
        if step.path.ends_with('*') {
            line.push_str(&walk.recursion.to_string());
        }
    }
    println!("{}", line);
}

#[inline(never)]
fn run_chain(walk: &mut Walk) {
    go_on!(walk);
}

/// In time that the thread ran, as chains.c has it.
fn progress_ns(begin: Instant) -> u64 {
    thread_cpu_ns().max(begin.elapsed().as_nanos() as u64 / STRETCH_MAX)
}

fn name_thread(name: &[u8]) {
    unsafe { prctl(15, name.as_ptr()) }; // PR_SET_NAME
}

fn option(name: &str, default: f64) -> f64 {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name);
    arguments.next().map_or(default, |value| value.parse().unwrap())
}

fn main() {
    let begin = Instant::now();
    let warm_up_ns = (option("--warm-up", 1.0) * 1e9) as u64;
    let end_ns = warm_up_ns + (option("--seconds", 3.0) * 1e9) as u64;
    let seed = option("--seed", std::process::id() as f64) as u64;
    let mut walk = Walk { chain: Vec::new(), at: 0, recursion: 1, ns: 0, random: seed };
    println!("seed {}", seed);
    name_thread(b"warm-up\0");
    while progress_ns(begin) < end_ns {
        if progress_ns(begin) >= warm_up_ns {
            name_thread(b"truth\0");
        }
        draw_chain(&mut walk);
        write_down(&walk);
        run_chain(&mut walk);
    }
    name_thread(b"done\0");
}
