//! The callers of a call, by name.

use std::fmt;
use std::ptr;

use super::{FRAME_LIMIT, Outside, walk};
use crate::text::count;

/// The callers of a call, the innermost first: the functions that its [`Fingerprint`](super::Fingerprint) stands for.
/// Empty if the key of an entry holds no stack.
///
/// They are kept as addresses, and their names are looked up each time they are shown. Functions of the standard
/// library are left out. In a stripped program functions have no names: the text then shows addresses and says so.
/// Names are looked up only if 1 GiB can be allocated; otherwise the text gives the number of functions.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{StacktraceMemoryCache, classify::OutOfMemory, execute};
///
/// fn embed(sizes: &StacktraceMemoryCache) -> Result<(), OutOfMemory> {
///     let with = execute::with::<StacktraceMemoryCache>().cache(sizes);
///     with.batch(64, |size| if size > 16 { Err(OutOfMemory::new(None)) } else { Ok(()) })
/// }
///
/// let sizes = StacktraceMemoryCache::new();
/// embed(&sizes)?;
/// println!("{}", sizes.entries()[0].callers); // demo::embed < demo::main
/// # assert!(sizes.entries()[0].callers.to_string().contains("::embed < "), "{:?}", sizes.entries());
/// # Ok::<(), OutOfMemory>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Callers {
    starts: Box<[usize]>,
}

impl Callers {
    /// Returns the callers of the function whose local variable has the address `entry`.
    #[cold]
    pub(crate) fn of(entry: usize) -> Self {
        let (mut starts, mut count) = ([0; FRAME_LIMIT], 0);
        // Nothing in here may panic or allocate, because the unwinder calls it.
        let each = |start| {
            if let Some(next) = starts.get_mut(count) {
                (*next, count) = (start, count + 1);
            }
        };
        walk::frames(&mut Outside::of(entry, each));
        Self { starts: starts.iter().copied().take(count).collect() }
    }

    /// True if no caller is known.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the names of the functions, or the addresses of those without a name.
    pub fn names(&self) -> Vec<String> {
        texts(self.named())
    }

    /// Returns the callers up to the frames that start a thread or a program, which are the same for all.
    fn named(&self) -> Vec<(usize, Option<String>)> {
        let has_room = has_room();
        let name = |start| if has_room { name_of(start) } else { None };
        let all = self.starts.iter().map(|&start| (start, name(start)));
        let is_start =
            |name: &Option<String>| name.as_ref().is_some_and(|name| name.contains(SHORT_BACKTRACE));
        let own = |name: &Option<String>| name.as_deref().is_none_or(|name| !is_of_std(name));
        let named = all.take_while(|(_, name)| !is_start(name)).filter(|(_, name)| own(name)).collect();
        // Otherwise the debug information stays in memory, and the next call has less.
        backtrace::clear_symbol_cache();
        named
    }
}

impl fmt::Display for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_empty() && !has_room() {
            let functions = count(self.starts.len(), "function");
            return write!(
                f,
                "{functions}, whose names are not looked up with less than 1 GiB of memory left"
            );
        }
        let named = self.named();
        let is_stripped = named.iter().any(|(_, name)| name.is_none());
        f.write_str(&texts(named).join(" < "))?;
        f.write_str(if is_stripped { " (addresses: the program is stripped)" } else { "" })
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callers({self})")
    }
}

/// The function of the standard library between a thread's own frames and those that start it.
const SHORT_BACKTRACE: &str = "__rust_begin_short_backtrace";

/// Bytes that must be free before names are looked up. The look-up reads the program's debug information, keeps some of
/// it in the allocator, and ends the process if an allocation fails. Reports are shown when memory is short.
const ROOM: usize = 1 << 30;

fn has_room() -> bool {
    Vec::<u8>::new().try_reserve_exact(ROOM).is_ok()
}

fn texts(named: Vec<(usize, Option<String>)>) -> Vec<String> {
    named.into_iter().map(|(start, name)| name.unwrap_or_else(|| format!("{start:#x}"))).collect()
}

fn is_of_std(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']);
    ["core::", "std::", "alloc::"].iter().any(|library| path.starts_with(library))
}

/// Returns the name of the function that begins at `start`.
fn name_of(start: usize) -> Option<String> {
    let mut name = None;
    // `resolve` takes a return address and looks up the instruction before it.
    let after = ptr::without_provenance_mut(start.wrapping_add(1));
    // Functions that were inlined there come first, and the one that begins there last.
    backtrace::resolve(after, |symbol| name = symbol.name().map(|name| format!("{name:#}")));
    name
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::Callers;

    #[inline(never)]
    fn entry() -> Callers {
        let anchor = 0_u8;
        black_box(Callers::of(std::ptr::from_ref(&anchor).addr()))
    }

    #[inline(never)]
    fn middle() -> Callers {
        black_box(entry())
    }

    #[inline(never)]
    fn outer() -> Callers {
        let callers = middle();
        black_box(&callers);
        callers
    }

    #[test]
    fn names_are_those_of_the_functions_the_innermost_first() {
        let callers = outer();
        let names = callers.names();
        let ends = names.iter().map(|name| name.rsplit("::").next().unwrap_or_default());
        // This test itself may be inlined into what runs it.
        assert_eq!(ends.take(2).collect::<Vec<_>>(), ["middle", "outer"], "{names:?}");
        assert_eq!(callers.to_string(), names.join(" < "));
        assert!(!names.iter().any(|name| name.contains("short_backtrace")), "{names:?}");
        assert_eq!((callers, outer().is_empty()), (outer(), false));
    }

    #[test]
    fn functions_without_names_are_shown_by_address_with_a_note() {
        let stripped = Callers { starts: [0x10, 0x20].into() };
        assert_eq!(stripped.names(), ["0x10", "0x20"]);
        assert_eq!(stripped.to_string(), "0x10 < 0x20 (addresses: the program is stripped)");
        let none = Callers::default();
        assert_eq!((none.is_empty(), none.to_string()), (true, String::new()));
    }
}
