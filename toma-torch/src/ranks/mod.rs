//! Agreement on sizes between processes that train together, over the store that PyTorch itself uses.
//!
//! Processes that `torchrun`, `mpirun` or a cluster's scheduler has started find each other by the environment
//! variables that these set. Each process is a *rank*. With the option `ranks` all of them make the same attempts at
//! the same sizes; [`toma_core::ranks`] describes the agreement and the rules for bodies.
//!
//! ```
//! use toma_core::{NoCache, classify::OutOfMemory, execute};
//! use toma_torch::ranks::Ranks;
//!
//! // A single rank; a program under `torchrun` uses `Ranks::from_env()`.
//! let ranks = Ranks::connect("localhost:29500", 0, 1)?;
//! let size = execute::with::<NoCache>().ranks(&ranks).batch(512, |size| {
//!     if size > 100 { Err(OutOfMemory::new(None)) } else { Ok(size) }
//! });
//! assert_eq!(size, Ok(64));
//! # Ok::<(), toma_core::ranks::Error>(())
//! ```
//!
//! Gradients of [`accumulate_gradients`](crate::accumulate_gradients) and [`backward`](crate::backward()) are added
//! once all ranks have agreed. Reduce them (NCCL, MPI) when the call has returned.

mod environment;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toma_core::ranks::{Calls, DEFAULT_TIMEOUT, Error, Group, Member, Vote, Waiting, threads};

use self::environment::Variables;
use self::store::Farewell;
#[doc(hidden)]
pub use self::store::TcpStore;

/// Options of the meeting of ranks.
///
/// ```no_run
/// use std::time::Duration;
/// use toma_torch::ranks::Rendezvous;
///
/// let ranks = Rendezvous::default().timeout(Duration::from_secs(60)).from_env()?;
/// # Ok::<(), toma_core::ranks::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rendezvous {
    timeout: Duration,
    prefix: String,
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, prefix: "toma/".to_owned() }
    }
}

impl Rendezvous {
    /// Sets how long ranks wait for each other, at first and at each vote. The default is 5 minutes.
    ///
    /// A rank votes when its attempt has ended, so the timeout should be longer than the longest attempt.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the prefix of all keys, for programs that share a store. The default is `toma/`.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Connects as [`Ranks::from_env`] does, with these options.
    ///
    /// # Errors
    /// See [`Ranks::from_env`].
    pub fn from_env(self) -> Result<Ranks, Error> {
        let Variables { address, rank, size, serves, restarts } = Variables::read(std::env::var)?;
        let prefix = format!("{}{restarts}/", self.prefix);
        Self { prefix, ..self }.join(&address, (rank, size), serves)
    }

    /// Connects as [`Ranks::connect`] does, with these options.
    ///
    /// # Errors
    /// See [`Ranks::connect`].
    pub fn connect(self, address: &str, rank: usize, size: usize) -> Result<Ranks, Error> {
        self.join(address, (rank, size), rank == 0)
    }

    fn join(self, address: &str, (rank, size): (usize, usize), serves: bool) -> Result<Ranks, Error> {
        let (host, port) = environment::host_and_port(address)?;
        environment::check(rank, size)?;
        if size == 1 {
            let alone = threads(1).pop().expect("one was made");
            return Ok(Ranks(Arc::new(Joined { member: Kind::Alone(alone), farewell: None })));
        }
        let store = TcpStore::open(host, port, serves, self.timeout)?.with_prefix(&self.prefix);
        store.claims(rank, size)?;
        let farewell = Farewell::new(store.clone(), size, serves);
        let member = Member::new(store, rank, size)?.timeout(self.timeout);
        let ranks = Ranks(Arc::new(Joined { member: Kind::Several(member), farewell: Some(farewell) }));
        ranks.barrier()?;
        Ok(ranks)
    }
}

/// Handle to all processes of a program that runs in several. Clones are the same rank.
///
/// ```
/// use toma_core::ranks::Group as _;
/// use toma_torch::ranks::Ranks;
///
/// let ranks = match std::env::var("WORLD_SIZE") {
///     Ok(_) => Ranks::from_env()?,
///     Err(_) => Ranks::connect("localhost:29500", 0, 1)?,
/// };
/// println!("rank {} of {}", ranks.rank(), ranks.size());
/// # Ok::<(), toma_core::ranks::Error>(())
/// ```
#[derive(Clone)]
pub struct Ranks(Arc<Joined>);

struct Joined {
    member: Kind,
    /// Dropped last: rank 0 serves the store to the others.
    farewell: Option<Arc<Farewell>>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let (Kind::Several(member), Some(farewell)) = (&self.member, &self.farewell) {
            farewell.misses(member.missing());
        }
    }
}

enum Kind {
    Alone(Member),
    Several(Member<TcpStore>),
}

impl Ranks {
    /// Finds the other ranks by the variables `MASTER_ADDR`, `MASTER_PORT`, `RANK` and `WORLD_SIZE`, and waits for
    /// them.
    ///
    /// Rank 0 serves the store, unless `torchrun` does.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a variable that is missing or no number, and for a rank that is not below the size or
    /// that another process has; [`Error::Store`] for a port in use and a host that does not answer; [`Error::Missing`]
    /// for ranks that do not come in time.
    pub fn from_env() -> Result<Self, Error> {
        Rendezvous::default().from_env()
    }

    /// Finds the other ranks at `address`, such as `host:29500`, and waits for them. Rank 0 serves the store there.
    ///
    /// # Errors
    /// See [`from_env`](Self::from_env).
    pub fn connect(address: &str, rank: usize, size: usize) -> Result<Self, Error> {
        Rendezvous::default().connect(address, rank, size)
    }

    /// Returns the same rank for other work that runs at the same time, such as an evaluation on another thread. All
    /// ranks use the same names, each name equally often.
    ///
    /// # Errors
    /// [`Error::Store`] where no other connection can be opened.
    pub fn named(&self, name: &str) -> Result<Self, Error> {
        let Joined { member, farewell } = &*self.0;
        let member = match member {
            Kind::Alone(alone) => Kind::Alone(alone.named(name, alone.store().clone())),
            Kind::Several(member) => Kind::Several(member.named(name, member.store().reconnected()?)),
        };
        Ok(Self(Arc::new(Joined { member, farewell: farewell.clone() })))
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.inner().rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.inner().size()
    }

    /// Returns true if all ranks pass `ok`, for loops of your own.
    ///
    /// # Errors
    /// Where ranks are missing or do something else, or another call runs over these ranks.
    pub fn agree(&self, ok: bool) -> Result<bool, Error> {
        self.inner().agree(ok)
    }

    /// Returns the smallest of the values of all ranks.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    pub fn smallest(&self, value: usize) -> Result<usize, Error> {
        self.inner().smallest(value)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    pub fn barrier(&self) -> Result<(), Error> {
        self.inner().barrier()
    }

    /// Returns the bytes of all ranks, in order of rank.
    ///
    /// For small data: each rank reads the bytes of all others from one store. Sum gradients by NCCL or MPI.
    ///
    /// # Errors
    /// As [`agree`](Self::agree). [`Error::Differ`] from then on, if the store has failed on some ranks alone.
    pub fn share(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        match &self.0.member {
            Kind::Alone(_) => Ok(vec![bytes]),
            Kind::Several(member) => member.share(bytes),
        }
    }

    fn inner(&self) -> &dyn Group {
        match &self.0.member {
            Kind::Alone(alone) => alone,
            Kind::Several(member) => member,
        }
    }
}

impl Group for Ranks {
    fn rank(&self) -> usize {
        self.inner().rank()
    }

    fn size(&self) -> usize {
        self.inner().size()
    }

    fn calls(&self) -> &Calls {
        self.inner().calls()
    }

    fn cast(&self, vote: Vote) -> Result<Waiting, Error> {
        self.inner().cast(vote)
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ranks").field(&self.inner()).finish()
    }
}
