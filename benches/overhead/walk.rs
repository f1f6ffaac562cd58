//! The default cache against a bare walk of the stack with the same frame limit.

use std::ffi::{c_int, c_void};
use std::hint::black_box;

use toma::StacktraceMemoryCache;
use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::execute;
use toma_core::stack::FRAME_LIMIT;

use super::measure::pairs;

#[expect(unsafe_code, reason = "the baseline is the platform's unwinder itself")]
mod bare {
    use super::{FRAME_LIMIT, c_int, c_void};

    const CONTINUE: c_int = 0;
    const STOP: c_int = 5;

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            trace: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
    }

    extern "C" fn count(_: *mut c_void, left: *mut c_void) -> c_int {
        let left = left.cast::<usize>();
        // SAFETY: the pointer is to the local of `walk`, which waits for the unwinder.
        let left = unsafe { &mut *left };
        *left -= 1;
        if *left == 0 { STOP } else { CONTINUE }
    }

    /// Unwinds as many frames as a fingerprint does, and does nothing with them.
    #[inline(never)]
    pub(crate) fn walk() -> usize {
        let mut left = FRAME_LIMIT;
        // SAFETY: `count` does not unwind, and the local outlives the call.
        unsafe { _Unwind_Backtrace(count, (&raw mut left).cast()) };
        left
    }
}

const TIMES: u32 = 100;

pub(crate) fn report() {
    println!(
        "default cache, warm, against a bare unwinder walk of {FRAME_LIMIT} frames (bar: 1.3x + 200 ns)"
    );
    for depth in [5, 20, 60] {
        at_depth(depth, &mut || one_depth(depth));
    }
    println!("default cache against the number of entries");
    at_depth(5, &mut entries);
}

#[inline(never)]
fn at_depth(depth: usize, then: &mut dyn FnMut()) {
    if depth == 0 {
        then();
    } else {
        at_depth(black_box(depth - 1), then);
    }
    black_box(());
}

fn one_depth(depth: usize) {
    let bare = || (0..TIMES).for_each(|_| _ = black_box(bare::walk()));
    let pair = pairs(401, bare, || warm_calls(StacktraceMemoryCache::shared()));
    let (walk, ours) =
        (pair.baseline.as_nanos() / u128::from(TIMES), pair.ours.as_nanos() / u128::from(TIMES));
    let rest = pair.ours.as_secs_f64() - 1.3 * pair.baseline.as_secs_f64();
    println!(
        "  depth {depth:>2}: walk {walk:>5} ns, call {ours:>5} ns, {:.2}x, {:>4.0} ns over 1.3x",
        pair.ratio,
        rest * 1e9 / f64::from(TIMES)
    );
}

/// Calls that find the size that the first of them learned.
#[inline(never)]
fn warm_calls(cache: &'static StacktraceMemoryCache) {
    for _ in 0..TIMES {
        let form = execute::with::<StacktraceMemoryCache>().cache(cache);
        let done =
            form.batch(8, |size| if black_box(size) > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) });
        black_box(done.is_ok());
    }
}

fn entries() {
    let full: &'static StacktraceMemoryCache = Box::leak(Box::default());
    (0..4000).for_each(|key| learn(full, key));
    let empty: &'static StacktraceMemoryCache = Box::leak(Box::default());
    learn(empty, 0);
    let pair = pairs(401, || warm_calls(empty), || warm_calls(full));
    println!("  {} entries against one: {:.2}x", full.entries().len(), pair.ratio);
}

/// Makes one call that meets a failure, so that the cache has an entry.
fn learn(cache: &StacktraceMemoryCache, key: i32) {
    let form = execute::with::<StacktraceMemoryCache>().cache(cache).key(key);
    let result = form.batch(8, |size| if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) });
    assert!(result.is_ok(), "half of the size succeeds");
}
