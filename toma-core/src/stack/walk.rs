//! The walk itself, with all of its unsafe code: one module per family of platforms.
#![expect(unsafe_code, reason = "walking a stack means calling the unwinder of the platform")]

use super::outside::{Outside, StackFrame};

#[cfg(any(not(unix), target_arch = "arm", target_arch = "s390x"))]
pub(super) use portable::frames;
#[cfg(all(unix, not(any(target_arch = "arm", target_arch = "s390x"))))]
pub(super) use unwinder::frames;

/// The unwinder that comes with every Rust program on Unix, called directly.
///
/// The `backtrace` crate would look every function up a second time to find its beginning, which the unwinder has just
/// done (20 to 35 % of the walk), and on Apple systems would not find it at all. 32-bit ARM exposes its frames through
/// other functions, and the stack pointer of s390x is not the value of `_Unwind_GetCFA`.
#[cfg(all(unix, not(any(target_arch = "arm", target_arch = "s390x"))))]
mod unwinder {
    use std::ffi::{c_int, c_void};
    use std::ptr;

    use super::{Outside, StackFrame};

    /// Makes the unwinder continue with the next frame.
    const NO_REASON: c_int = 0;
    /// Makes the unwinder stop.
    const NORMAL_STOP: c_int = 4;

    /// A frame of the unwinder; it never leaves the callback that receives it.
    struct Context(*mut c_void);

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetCFA(context: *mut c_void) -> usize;
        fn _Unwind_GetRegionStart(context: *mut c_void) -> usize;
    }

    /// Passes the frames of this thread to `outside`, the innermost first.
    pub(in super::super) fn frames<F: FnMut(usize)>(outside: &mut Outside<F>) {
        // SAFETY: the callback has the type the platform's ABI asks for, expects an `Outside<F>` and gets
        // one that is borrowed mutably until the call returns, and does not unwind.
        unsafe { _Unwind_Backtrace(visit::<F>, ptr::from_mut(outside).cast()) };
    }

    /// Passes one frame on. Nothing here or in its callees can panic, so nothing unwinds into foreign frames.
    extern "C" fn visit<F: FnMut(usize)>(context: *mut c_void, outside: *mut c_void) -> c_int {
        // SAFETY: `frames` passed this pointer, made from a `&mut Outside<F>` it holds and does not use
        // meanwhile, and the unwinder calls back on the same thread, one frame at a time.
        let outside = unsafe { &mut *outside.cast::<Outside<F>>() };
        if outside.visit(&Context(context)).is_break() { NORMAL_STOP } else { NO_REASON }
    }

    impl StackFrame for Context {
        /// The unwinder calls this value the canonical frame address, that of the function called from this frame: the
        /// value that this frame's own stack pointer will have on return.
        fn stack_pointer(&self) -> usize {
            // SAFETY: the context is the one of the running callback, and is only read.
            unsafe { _Unwind_GetCFA(self.0) }
        }

        /// For a frame without tables, which is the last one reported, this is the function of the frame before it, so
        /// the result is the same for the same chain.
        fn function_start(&self) -> usize {
            // SAFETY: the context is the one of the running callback, and is only read.
            unsafe { _Unwind_GetRegionStart(self.0) }
        }
    }
}

/// The `backtrace` crate, for the platforms whose own ways to walk a stack differ.
///
/// If it cannot find the beginning of a function, it gives the return address instead, and a loop keyed on that starts
/// over on every pass. Only the number of frames counts there: too few keys cost a smaller step, too many cost an
/// allocation failure each.
#[cfg(any(test, not(unix), target_arch = "arm", target_arch = "s390x"))]
pub(super) mod portable {
    use super::{Outside, StackFrame};

    /// Passes the frames of this thread to `outside`, the innermost first.
    pub(in super::super) fn frames<F: FnMut(usize)>(outside: &mut Outside<F>) {
        trace(|frame| outside.visit(frame).is_continue());
    }

    #[cfg(all(windows, target_arch = "x86"))]
    use backtrace::trace;

    /// Walks without the lock of the symbol tables, which are not read here. Only 32-bit Windows needs that lock,
    /// because its walk uses the library of those tables.
    #[cfg(not(all(windows, target_arch = "x86")))]
    fn trace(visit: impl FnMut(&backtrace::Frame) -> bool) {
        // SAFETY: the walk touches this thread's stack and read-only tables, nothing shared.
        unsafe { backtrace::trace_unsynchronized(visit) };
    }

    impl StackFrame for backtrace::Frame {
        fn stack_pointer(&self) -> usize {
            self.sp().addr()
        }

        fn function_start(&self) -> usize {
            start(self)
        }
    }

    #[cfg(not(all(windows, target_pointer_width = "64")))]
    fn start(frame: &backtrace::Frame) -> usize {
        let start = frame.symbol_address().addr();
        if start == frame.ip().addr() { 0 } else { start }
    }

    #[cfg(all(windows, target_pointer_width = "64"))]
    fn start(frame: &backtrace::Frame) -> usize {
        /// The part of the table's entry that all architectures share.
        #[repr(C)]
        struct RuntimeFunction {
            begin: u32,
        }

        #[link(name = "kernel32")]
        unsafe extern "system" {
            fn RtlLookupFunctionEntry(
                address: usize,
                image_base: *mut usize,
                history: *mut std::ffi::c_void,
            ) -> *const RuntimeFunction;
        }

        // A call may be the last instruction of its function, and then the return address is the beginning of the next
        // function.
        let call = frame.ip().addr().wrapping_sub(1);
        let mut image_base = 0;
        // SAFETY: any address may be looked up, the base is a variable of this function, and the
        // history may be null.
        let entry = unsafe { RtlLookupFunctionEntry(call, &raw mut image_base, std::ptr::null_mut()) };
        // SAFETY: the entry is null or part of a loaded image, whose code is on this stack and so is
        // not unloaded meanwhile.
        unsafe { entry.as_ref() }.map_or(0, |entry| image_base.wrapping_add(entry.begin as usize))
    }
}
