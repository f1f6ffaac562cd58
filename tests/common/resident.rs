//! Resident bytes of this process, as the kernel counts them.

/// Bytes under a key of `/proc/self/status`: `VmRSS` now, `VmHWM` at most.
pub(crate) fn bytes(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
