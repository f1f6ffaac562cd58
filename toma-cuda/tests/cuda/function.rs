//! What the double and its tests both know: compiled into each of them.

/// A group of the driver's functions, whose calls the double counts and makes fail.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Function {
    Allocate,
    Free,
    Synchronize,
    Copy,
    Information,
    Trim,
    Initialize,
    SetCurrent,
}

/// What a test sets up, or asks; memory is that of device 0.
#[allow(dead_code, reason = "the tests write what the double reads")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) enum Request {
    /// As many bytes in all.
    SetTotal(u64),
    SetDeviceCount(i32),
    WithoutPools,
    /// The call of this function after so many more fails once, with this code.
    Fail(Function, u32, u32),
    /// From now on everything fails with this code, as after a kernel that went wrong.
    Poison(u32),
    Calls(Function),
    /// Bytes that slices hold.
    UsedBytes,
    /// Bytes that are not free: of slices, and what the pool holds back.
    TakenBytes,
}
