//! Bytes of a device that are reserved for one caller.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::ledger::{Refused, Reserved, Wish};
use super::sleepers::{SleeperId, wake};
use super::turn::Device;
use super::wait::{WaitFor, Waits};
use crate::memory::{MemorySource, Reading};
use crate::nesting::Nesting;

/// Reserves `bytes` of a device for the caller, and waits for them for at most `timeout`.
///
/// Work that knows how many bytes it needs can wait until they are free, in the order of the requests, instead of
/// running out of memory because others use them. A reservation allocates nothing, and binds only calls that
/// reserve. It is granted if `bytes` are free now, and if all live reservations of the device together stay within
/// the bytes that were free when the first of them was granted. So bytes that are reserved and not yet allocated
/// are not given away twice. Bytes that become free later are granted once none of these reservations lives, because
/// their users may allocate them again.
///
/// Inside an attempt with a `device` it does not wait and behaves as [`try_reserve`], because the attempt holds
/// memory that others may wait for. The error does not count as out of memory: a body that returns it, or panics
/// with it, is not run again, and the error reaches the caller.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Duration;
/// use toma::memory::{MemorySource, Reading};
/// use toma::device;
///
/// /// Has 1000 bytes.
/// #[derive(Debug)]
/// struct Device;
///
/// impl MemorySource for Device {
///     fn name(&self) -> &str {
///         "pool:0"
///     }
///
///     fn read(&self) -> std::io::Result<Reading> {
///         Ok(Reading::new(1000, 1000))
///     }
/// }
///
/// let weights = device::reserve(&Device, 700, Duration::from_secs(1))?;
/// let error = device::reserve(&Device, 400, Duration::from_millis(1)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "pool:0: cannot reserve 400 bytes: 1000 of 1000 bytes are free, \
///      others have reserved 700 of the 1000 bytes that were free before"
/// );
///
/// drop(weights);
/// assert!(device::try_reserve(&Device, 400).is_ok());
/// # Ok::<(), device::NotReserved>(())
/// ```
///
/// # Errors
/// If the bytes were not free in time; at once if the device has fewer bytes, or cannot be read.
pub fn reserve(device: &dyn MemorySource, bytes: u64, timeout: Duration) -> Result<Reservation, NotReserved> {
    Waits::<ForBytes<'_>>::new(device, bytes, timeout).wait()
}

/// Reserves `bytes` of a device for the caller if they are free now and no other call waits for bytes; see
/// [`reserve`].
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{device, memory::Host};
///
/// match device::try_reserve(Host::shared(), 1 << 20) {
///     Ok(reservation) => println!("{} bytes are ours", reservation.bytes()),
///     Err(error) => println!("{error}; going on without a cache"),
/// }
/// ```
///
/// # Errors
/// If it would have to wait, if the device has fewer bytes, or if it cannot be read.
pub fn try_reserve(device: &dyn MemorySource, bytes: u64) -> Result<Reservation, NotReserved> {
    reserve(device, bytes, Duration::ZERO)
}

/// Works as [`reserve`], for tasks of any executor: a thread of toma watches the time.
///
/// The timeout counts from the call. A future that is dropped leaves the queue.
///
/// ```
/// # extern crate toma_core as toma;
/// # use std::pin::pin;
/// # use std::task::{Context, Waker};
/// use std::time::Duration;
/// use toma::{device, memory::Host};
///
/// # async fn run() -> Result<(), device::NotReserved> {
/// let weights = device::reserve_async(Host::shared(), 1 << 20, Duration::from_secs(1)).await?;
/// assert_eq!(weights.bytes(), 1 << 20);
/// # Ok(())
/// # }
/// # let mut run = pin!(run());
/// # while run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
/// ```
///
/// # Errors
/// The errors of [`reserve`].
pub fn reserve_async(
    device: &dyn MemorySource,
    bytes: u64,
    timeout: Duration,
) -> impl Future<Output = Result<Reservation, NotReserved>> + Send {
    Waits::<ForBytes<'_>>::new(device, bytes, timeout)
}

/// A reservation that is waited for.
#[derive(Debug)]
struct ForBytes<'a> {
    source: &'a dyn MemorySource,
    device: Device,
    bytes: u64,
    until: Option<Instant>,
}

impl<'a> Waits<ForBytes<'a>> {
    fn new(source: &'a dyn MemorySource, bytes: u64, timeout: Duration) -> Self {
        let until = Instant::now().checked_add(timeout);
        let on = ForBytes { source, device: Device::of(source), bytes, until };
        Self { on, key: Some(SleeperId::new()) }
    }
}

impl ForBytes<'_> {
    /// True if the wait must end: its time is over, this thread holds a turn, or waiting would block a task or an
    /// entry of this thread.
    fn is_late(&self) -> bool {
        let Nesting { marks, enclosing } = Nesting::now();
        marks.blocked || enclosing.holds_any() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl WaitFor for ForBytes<'_> {
    type Output = Result<Reservation, NotReserved>;

    fn look(&mut self, key: SleeperId) -> Result<Self::Output, Option<Instant>> {
        let &mut Self { source, ref device, bytes, until } = self;
        // Without the lock, because a memory source is foreign code.
        let reading = source.read();
        let free = reading.as_ref().ok().copied();
        let promised = device.queue.promised.get().load(Relaxed);
        let now = Instant::now();
        let (answer, woken) =
            device.queue.ledger.lock_own().ask(Wish { key, bytes, promised, until }, free, now);
        wake(woken);
        let refused = match answer {
            Ok(process) => return Ok(Ok(Reservation { device: device.clone(), bytes, process })),
            Err(refused) => refused,
        };
        let is_hopeless = free.is_none_or(|free| bytes > free.total_bytes);
        if !(is_hopeless || self.is_late()) {
            return Err(refused.look_at);
        }
        // Leaves the queue now, because the future may be dropped much later.
        self.leave(key);
        Ok(Err(NotReserved { device: self.device.clone(), asked_bytes: bytes, refused, reading }))
    }

    fn leave(&mut self, key: SleeperId) {
        let first = self.device.queue.ledger.lock_own().withdraw(key);
        wake(first);
    }
}

/// Bytes of a device that are reserved for the owner; given back when dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{device, memory::Host};
///
/// let reservation = device::try_reserve(Host::shared(), 1 << 20)?;
/// assert_eq!((reservation.device(), reservation.bytes()), ("host", 1 << 20));
/// drop(reservation); // others may have the bytes
/// # Ok::<(), device::NotReserved>(())
/// ```
#[must_use = "the bytes are given back when this is dropped"]
#[derive(Debug)]
pub struct Reservation {
    device: Device,
    bytes: u64,
    process: u32,
}

impl Reservation {
    /// The name of the device.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let first = self.device.queue.ledger.lock_own().give_back(self.bytes, self.process);
        wake(first);
    }
}

/// Error of a reservation that was not granted.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{device, memory::Host};
///
/// let error = device::try_reserve(Host::shared(), u64::MAX).unwrap_err();
/// assert_eq!((error.device(), error.asked_bytes()), ("host", u64::MAX));
/// println!("{error}"); // the free bytes, and those that others have reserved
/// ```
pub struct NotReserved {
    device: Device,
    asked_bytes: u64,
    refused: Refused,
    reading: io::Result<Reading>,
}

impl NotReserved {
    /// The name of the device.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The requested bytes.
    pub fn asked_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// The bytes that others had reserved when the wait ended.
    pub fn reserved_bytes(&self) -> u64 {
        self.refused.others.map_or(0, |others| others.bytes)
    }

    /// Free and total bytes when the wait ended; `None` if the device could not be read.
    pub fn reading(&self) -> Option<Reading> {
        self.reading.as_ref().ok().copied()
    }

    /// True if waiting longer cannot help, because the device has fewer bytes.
    pub fn is_too_large(&self) -> bool {
        self.reading().is_some_and(|reading| self.asked_bytes > reading.total_bytes)
    }
}

impl fmt::Display for NotReserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, asked_bytes, refused: Refused { others, ahead, .. }, reading } = self;
        match device.name() {
            "" => f.write_str("device \"\"")?,
            name => f.write_str(name)?,
        }
        write!(f, ": cannot reserve {asked_bytes} bytes: ")?;
        match reading {
            Ok(Reading { free_bytes, total_bytes }) => {
                write!(f, "{free_bytes} of {total_bytes} bytes are free")?;
            }
            Err(_) => f.write_str("how many are free is unknown")?,
        }
        if let Some(Reserved { bytes, limit_bytes }) = others {
            write!(f, ", others have reserved {bytes} of the {limit_bytes} bytes that were free before")?;
        }
        if *ahead > 0 { write!(f, ", {ahead} waiting before it") } else { Ok(()) }
    }
}

/// Prints the message, because `unwrap` and `expect` print the Debug form.
impl fmt::Debug for NotReserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotReserved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reading.as_ref().err().map(|error| error as _)
    }
}
