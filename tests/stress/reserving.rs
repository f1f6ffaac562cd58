//! Bodies that reserve bytes before they work: next to others that do the same, and with waits that are dropped
//! half-way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use toma::device::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
use toma::memory::MemorySource as _;
use toma::testing::{FakeBuffer, FakeDevice};

use crate::actor::Actor;
use crate::ending::Ending;
use crate::fault::Fault;
use crate::forms::with;
use crate::scene::Scene;
use crate::world::lock;

const BYTES: u64 = 1 << 20;

/// A device on which only reserved bytes are allocated.
static POOL: LazyLock<Pool> = LazyLock::new(|| Pool {
    device: FakeDevice::new(BYTES),
    reserved: AtomicU64::new(0),
    granted: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
});

#[derive(Debug)]
struct Pool {
    device: FakeDevice,
    reserved: AtomicU64,
    granted: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

/// Bytes that are reserved, and perhaps allocated. The fields are dropped in this order.
#[derive(Debug)]
struct Mine {
    _buffer: Option<FakeBuffer>,
    _counted: Counted,
    _reservation: Reservation,
}

/// Bytes that are counted as reserved until this is dropped.
#[derive(Debug)]
struct Counted(u64);

impl Drop for Counted {
    fn drop(&mut self) {
        POOL.reserved.fetch_sub(self.0, SeqCst);
    }
}

/// Requested bytes, and the limits on the wait for them.
struct Wish {
    bytes: u64,
    timeout: Duration,
    /// True if all of the bytes are allocated after the reservation.
    allocates: bool,
    /// Maximum number of polls for which a task waits.
    polls: Option<usize>,
}

impl Wish {
    fn new(actor: &Actor) -> Self {
        let random = &mut lock(&actor.state).random;
        let bytes = match random.u8(..16) {
            0 => 0,
            1 => BYTES + random.u64(1..BYTES),
            2 => BYTES,
            _ => random.u64(..BYTES),
        };
        // The timeout is short, because a holder of some bytes may wait for more.
        let timeout = Duration::from_micros(random.u64(..2000));
        let polls = (random.u8(..4) == 0).then(|| random.usize(..4));
        Self { bytes, timeout, allocates: random.bool(), polls }
    }

    /// Asserts that no more is reserved than there is, and that reserved bytes can be allocated.
    fn check(&self, result: Result<Reservation, NotReserved>) -> Option<Mine> {
        match result {
            Ok(reservation) => {
                POOL.granted.fetch_add(1, SeqCst);
                let sum = POOL.reserved.fetch_add(self.bytes, SeqCst) + self.bytes;
                let counted = Counted(self.bytes);
                assert_eq!(reservation.bytes(), self.bytes);
                assert!(sum <= BYTES, "{sum} bytes are reserved of {BYTES}");
                let buffer =
                    self.allocates.then(|| POOL.device.alloc(self.bytes).expect("they are reserved"));
                Some(Mine { _buffer: buffer, _counted: counted, _reservation: reservation })
            }
            Err(error) => {
                POOL.refused.fetch_add(1, SeqCst);
                assert_eq!((error.asked_bytes(), error.is_too_large()), (self.bytes, self.bytes > BYTES));
                assert!(error.reserved_bytes() <= BYTES, "{error}");
                None
            }
        }
    }

    fn fulfil(&self) -> Option<Mine> {
        self.check(if self.polls.is_some() {
            try_reserve(&POOL.device, self.bytes)
        } else {
            reserve(&POOL.device, self.bytes, self.timeout)
        })
    }

    /// Reserves in a task, which may give up after some polls.
    async fn fulfil_async(&self) -> Option<Mine> {
        let mut wait = pin!(reserve_async(&POOL.device, self.bytes, self.timeout));
        let mut polls = self.polls;
        let result = poll_fn(|context| {
            if polls == Some(0) {
                POOL.dropped.fetch_add(1, SeqCst);
                return Poll::Ready(None);
            }
            polls = polls.map(|polls| polls - 1);
            wait.as_mut().poll(context).map(Some)
        });
        self.check(result.await?)
    }
}

/// Each attempt holds its bytes to its end, however it ends.
pub(crate) fn perform(scene: &Scene<'_>) -> Result<(), Fault> {
    let form = with!(scene);
    form.range(scene.plan.whole(), scene.plan.sizes.initial, |start, end| {
        let _mine = Wish::new(scene.actor).fulfil();
        scene.at(start, end).map(drop)
    })
}

pub(crate) async fn perform_async(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let form = with!(scene);
    let mut pieces = form.stream(scene.plan.whole(), scene.plan.sizes.initial, async |start, end| {
        let _mine = Wish::new(scene.actor).fulfil_async().await;
        scene.at_async(start, end).await.map(drop)
    });
    while let Some(piece) = pieces.next().await {
        piece?;
    }
    Ok(Ending::Done(None))
}

/// Asserts that all bytes are returned and that nothing waits any more.
pub(crate) fn check_what_is_left() {
    assert_eq!((POOL.reserved.load(SeqCst), POOL.device.allocated_bytes()), (0, 0));
    let all = try_reserve(&POOL.device, BYTES).expect("nothing is reserved");
    assert_eq!(all.device(), POOL.device.name());
    for count in [&POOL.granted, &POOL.refused, &POOL.dropped] {
        assert_ne!(count.load(SeqCst), 0, "something never happened: {POOL:?}");
    }
}
