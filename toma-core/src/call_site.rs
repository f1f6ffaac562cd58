//! Origin of a call: the annotated function, the calling line, and the name in reports.
//!
//! A call site is known at compile time: an attribute emits one static [`Site`] per function, and an inline form
//! takes the line that called it. The size cache uses it as a key; reports and events name it.
//!
//! Two inline forms that one `macro_rules!` expands on one line share an entry, because their `Location`s are
//! equal. The option `key` separates them.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;

use crate::stack::Fingerprint;

/// The identity of an annotated function: one static per function.
///
/// The address of the static is the identity: functions that one macro call generates share a line,
/// and instantiations of a generic function share the static, as they should.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    file: &'static str,
    line: u32,
    column: u32,
    version: Option<&'static str>,
}

impl Site {
    /// The site of a function, with its path and the location of its definition.
    pub const fn new(name: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        Self { name, file, line, column, version: None }
    }

    /// Sets the version of the function's crate, if it is known.
    #[must_use]
    pub const fn of_version(self, version: Option<&'static str>) -> Self {
        Self { version, ..self }
    }

    /// The path of the function.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The version of the function's crate, if it is known.
    pub const fn version(&self) -> Option<&'static str> {
        self.version
    }

    /// File, line and column of the definition.
    #[cfg(feature = "persistent")]
    pub(crate) fn position(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{}:{})", self.name, self.file, self.line, self.column)
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Site {}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).addr().hash(state);
    }
}

/// Origin of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The annotated function; `None` for inline forms.
    pub(crate) site: Option<&'static Site>,
    /// The calling line; `None` for async functions, which cannot know it.
    pub(crate) caller: Option<&'static Location<'static>>,
    pub(crate) above: Above,
}

/// The functions above the calling line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Above {
    /// On the stack, starting at the address of a local variable of the called form: frames below it are the
    /// library's.
    From(usize),
    /// A fingerprint from when the call was made, because it may end under other functions, as an iterator does.
    Seen(Fingerprint),
    /// Unknown, because any executor may poll.
    Unknown,
}

/// The name of a call: a function's path, a given name, or the line of an inline form.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, execute, report};
///
/// execute::with::<NoCache>().name("embed").batch(8, |_| ());
/// assert_eq!(report::last().unwrap().name.to_string(), "embed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub(crate) NameKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    Given(Cow<'static, str>),
    Line(&'static Location<'static>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            NameKind::Given(name) => f.write_str(name),
            NameKind::Line(line) => write!(f, "{}:{}", line.file(), line.line()),
        }
    }
}

impl Name {
    /// The given name, or else the best name that the origin has.
    #[inline]
    pub(crate) fn of(given: Option<Cow<'static, str>>, origin: &Origin) -> Self {
        Self(match (given, origin.site, origin.caller) {
            (Some(name), ..) => NameKind::Given(name),
            (None, Some(site), _) => NameKind::Given(Cow::Borrowed(site.name())),
            (None, None, Some(caller)) => NameKind::Line(caller),
            (None, None, None) => NameKind::Given(Cow::Borrowed("unnamed")),
        })
    }

    /// Panics because of an invalid value that the call was given.
    #[cold]
    pub(crate) fn refuse(&self, mistake: impl fmt::Display) -> ! {
        panic!("{self}: {mistake}")
    }
}

impl Default for Name {
    fn default() -> Self {
        Self(NameKind::Given(Cow::Borrowed("")))
    }
}

/// Returns a number that stands for a value, such as a user's key.
pub(crate) fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
