//! Types shared by the double and its tests, compiled into each of them.

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

/// A setting or a question of a test; memory is that of device 0.
#[allow(dead_code, reason = "the tests write what the double reads")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) enum Request {
    /// Sets the total bytes.
    SetTotal(u64),
    SetDeviceCount(i32),
    WithoutPools,
    /// The call of this function after this many more fails once, with this code.
    Fail(Function, u32, u32),
    /// From now on everything fails with this code, as after a failed kernel.
    Poison(u32),
    Calls(Function),
    /// Bytes that slices hold.
    UsedBytes,
    /// Bytes that are not free: of slices, and the bytes that the pool holds back.
    TakenBytes,
}
