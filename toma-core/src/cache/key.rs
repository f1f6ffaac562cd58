//! Keys that distinguish calls in a size cache.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;

use crate::call_site::{Above, Name, Origin, Site, hash_of};
use crate::memory::{self, MemorySource};
use crate::stack::{self, Callers, Fingerprint};

/// One call, as a size cache sees it.
///
/// A cache that remembers nothing for calls of one name would ask:
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::cache::{Place, Remembered};
///
/// fn recall(place: &Place<'_>) -> Option<Remembered> {
///     let is_known = place.name().to_string() == "embed" && place.free_bytes() > Some(1 << 30);
///     is_known.then(|| Remembered::new(64))
/// }
/// ```
#[derive(Debug)]
pub struct Place<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) name: &'a Name,
    pub(crate) user: u64,
    pub(crate) device: Option<&'a dyn MemorySource>,
    /// The largest size that the call could use.
    pub(crate) cap: usize,
}

impl Place<'_> {
    /// Returns one key per annotated function, or per line of an inline form.
    #[inline]
    pub fn by_function(&self) -> Key {
        let caller = if self.origin.site.is_some() { None } else { self.origin.caller };
        self.with(caller, None)
    }

    /// Returns one key per calling line and chain of functions above it; per function if the calling line is
    /// unknown, as in async functions.
    pub fn by_stack(&self) -> Key {
        match (self.origin.caller, self.origin.above) {
            (Some(_), Above::From(entry)) => self.with(self.origin.caller, Some(stack::fingerprint(entry))),
            (Some(_), Above::Seen(stack)) => self.with(self.origin.caller, Some(stack)),
            (_, Above::Unknown) | (None, _) => self.by_function(),
        }
    }

    /// Returns the functions that [`by_stack`](Self::by_stack) distinguishes, for people; none if the key holds no
    /// stack, or only the fingerprint of an earlier call.
    pub fn callers(&self) -> Callers {
        match (self.origin.caller, self.origin.above) {
            (Some(_), Above::From(entry)) => Callers::of(entry),
            _ => Callers::default(),
        }
    }

    /// Returns the name of the call.
    pub fn name(&self) -> &Name {
        self.name
    }

    /// Returns the free bytes of the call's memory source, at most a tenth of a second old.
    pub fn free_bytes(&self) -> Option<u64> {
        let device = self.device.unwrap_or(memory::Host::shared());
        memory::recent(device).map(|now| now.free_bytes)
    }

    #[inline]
    fn with(&self, caller: Option<&'static Location<'static>>, stack: Option<Fingerprint>) -> Key {
        let device = self.device.map_or(0, |device| hash_of(device.name()));
        Key { site: self.origin.site, caller, user: self.user, device, stack }
    }
}

/// The key of an entry, equal for calls that share evidence.
///
/// Keys are compared by value: one line seen from two crates is one line, even if its location has two addresses.
/// `Display` is for people who inspect a cache: the function, the calling line, and a number for each further part
/// of the key.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, classify::OutOfMemory, execute};
///
/// let sizes = GlobalCache::new();
/// for key in ["small", "large"] {
///     execute::with::<GlobalCache>().cache(&sizes).key(key).batch(8, |size| {
///         if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
///     })?;
/// }
/// let entries = sizes.entries();
/// assert_ne!(entries[0].key, entries[1].key);
/// # Ok::<(), OutOfMemory>(())
/// ```
#[derive(Clone, Copy)]
pub struct Key {
    site: Option<&'static Site>,
    caller: Option<&'static Location<'static>>,
    user: u64,
    device: u64,
    stack: Option<Fingerprint>,
}

/// Odd numbers without a pattern in their bits: the multipliers of splitmix64 and of xxHash64.
const ODD: [u64; 5] = [
    0x9E37_79B9_7F4A_7C15,
    0xBF58_476D_1CE4_E5B9,
    0x94D0_49BB_1331_11EB,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
];

impl Key {
    /// True if the functions above the call are part of the key.
    pub(super) fn has_stack(&self) -> bool {
        self.stack.is_some()
    }

    /// Hash that is cheap and good enough to spread keys over a small table.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most words of a key are known to be nothing where it is made")]
    #[expect(clippy::cast_possible_truncation, reason = "any bits of the fingerprint will do")]
    pub(super) fn spread(&self) -> u64 {
        let site = self.site.map_or(0, |site| std::ptr::from_ref(site).addr() as u64);
        let line = self.caller.map_or(0, |at| (u64::from(at.line()) << 32) | u64::from(at.column()));
        // Half of the bits are as evenly mixed as all of them.
        let stack = self.stack.map_or(0, |stack| stack.to_bits() as u64);
        let words = [site, line, self.user, self.device, stack];
        // Five products at a time: one after the other takes four times as long.
        let products = words.iter().zip(ODD).map(|(word, odd)| word.wrapping_mul(odd));
        let mixed = products.fold(0, u64::wrapping_add);
        (mixed ^ (mixed >> 32)).wrapping_mul(ODD[0])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.site.map(ToString::to_string),
            self.caller.map(|line| format!("called at {line}")),
            (self.user != 0).then(|| format!("key {:#018x}", self.user)),
            (self.device != 0).then(|| format!("device {:#018x}", self.device)),
            self.stack.map(|stack| format!("stack {:#034x}", stack.to_bits())),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "one entry for all" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.site == other.site
            && self.user == other.user
            && self.device == other.device
            && self.stack == other.stack
            && same_line(self.caller, other.caller)
    }
}

impl Eq for Key {}

/// Compares by value, and by address first, because it is nearly always the same location.
#[inline]
fn same_line(a: Option<&'static Location<'static>>, b: Option<&'static Location<'static>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => std::ptr::eq(a, b) || a == b,
        (a, b) => a.is_none() && b.is_none(),
    }
}

impl Hash for Key {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `spread`")]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The file is left to equality, because it is long, and line and column nearly always differ.
        state.write_u64(self.spread());
    }
}
