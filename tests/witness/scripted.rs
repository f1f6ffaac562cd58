//! A witness that records its notifications by thread, and detects those that are out of order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use toma::observe::witness::{self, Attempted, Ended, Witness, listen};

/// Identifies an attempt: number of the call, and of the attempt in it.
type Id = (u64, usize);

static ALONE: Mutex<()> = Mutex::new(());
/// Attempts that were reported; true once they have ended.
static ATTEMPTS: Mutex<BTreeMap<Id, bool>> = Mutex::new(BTreeMap::new());
static MISTAKES: Mutex<Vec<String>> = Mutex::new(Vec::new());

type Meanwhile = Rc<dyn Fn(&str)>;

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::default();
}

/// Notifications received on one thread.
#[derive(Default)]
struct Notes {
    lines: Vec<String>,
    /// Attempts that the thread runs, the outermost first.
    inside: Vec<Id>,
    /// Calls in the order in which they came.
    calls: Vec<u64>,
    /// Number of times that the witness was asked.
    asked: usize,
    /// Code that the witness runs in each notification.
    meanwhile: Option<Meanwhile>,
    knows_nothing: bool,
}

struct Scripted;

impl Witness for Scripted {
    fn enter(&self, attempt: &Attempted<'_>) {
        let id = id(attempt);
        let mut attempts = locked(&ATTEMPTS);
        match attempts.insert(id, false) {
            Some(true) => mistake(format!("{id:?} is entered after its end")),
            known if known.is_some() != attempt.resumes => mistake(format!("{attempt:?}: resumes?")),
            _ => {}
        }
        drop(attempts);
        let Attempted { start, end, size, .. } = *attempt;
        let of = if size == end - start { String::new() } else { format!(" of {size}") };
        let again = if attempt.resumes { " again" } else { "" };
        note(format!("enter {} {start}..{end}{of}{again}", short(id)));
        meanwhile("enter");
        NOTES.with_borrow_mut(|notes| notes.inside.push(id));
    }

    fn leave(&self) {
        match NOTES.with_borrow_mut(|notes| notes.inside.pop()) {
            Some(id) => note(format!("leave {}", short(id))),
            None => mistake("nothing is left to leave".to_owned()),
        }
        meanwhile("leave");
    }

    fn ended(&self, attempt: &Attempted<'_>, ended: Ended) {
        let id = id(attempt);
        if NOTES.with_borrow(|notes| notes.inside.contains(&id)) {
            mistake(format!("{id:?} ends while it runs"));
        }
        if locked(&ATTEMPTS).insert(id, true) == Some(true) {
            mistake(format!("{id:?} ends twice"));
        }
        note(format!("ended {}: {ended:?}", short(id)));
        meanwhile("ended");
    }

    fn filled(&self) -> Option<String> {
        note("asked".to_owned());
        meanwhile("filled");
        let asked = NOTES.with_borrow_mut(|notes| {
            notes.asked += 1;
            notes.asked
        });
        NOTES.with_borrow(|notes| !notes.knows_nothing).then(|| format!("a net\nanswer {asked}\n"))
    }
}

/// The witness listens while a session lives.
pub(crate) struct Session {
    _alone: MutexGuard<'static, ()>,
}

impl Session {
    pub(crate) fn new() -> Self {
        let session = Self::silent();
        listen(true);
        session
    }

    /// Registers the witness without listening.
    pub(crate) fn silent() -> Self {
        static FIRST: Once = Once::new();
        let alone = locked(&ALONE);
        FIRST.call_once(|| assert!(witness::register(&Scripted), "something else registers one"));
        locked(&ATTEMPTS).clear();
        locked(&MISTAKES).clear();
        NOTES.set(Notes::default());
        Self { _alone: alone }
    }

    /// Returns the notifications of this thread since the last call, and asserts that none was out of order.
    #[expect(clippy::unused_self, reason = "the notes are the session's while it lives")]
    pub(crate) fn take(&self) -> String {
        thread_ends();
        assert_eq!(*locked(&MISTAKES), Vec::<String>::new());
        let attempts = std::mem::take(&mut *locked(&ATTEMPTS));
        assert!(attempts.values().all(|ended| *ended), "not reported to their end: {attempts:?}");
        lines().iter().map(|line| line.clone() + "\n").collect()
    }
}

impl Session {
    /// Returns the notifications of this thread since the last call, where some attempts have no reported end.
    #[expect(clippy::unused_self, reason = "the notes are the session's while it lives")]
    pub(crate) fn received_again(&self) -> Vec<String> {
        locked(&MISTAKES).clear();
        locked(&ATTEMPTS).clear();
        lines()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        listen(false);
        NOTES.set(Notes::default());
    }
}

/// Lets the witness run `code` at each notification on this thread, with the name of the function of the witness.
pub(crate) fn set_meanwhile(code: impl Fn(&str) + 'static) {
    NOTES.with_borrow_mut(|notes| notes.meanwhile = Some(Rc::new(code)));
}

pub(crate) fn knows_nothing() {
    NOTES.with_borrow_mut(|notes| notes.knows_nothing = true);
}

/// Returns the notifications of this thread since the last call.
pub(crate) fn lines() -> Vec<String> {
    NOTES.with_borrow_mut(|notes| std::mem::take(&mut notes.lines))
}

/// Returns how often this thread has asked the witness.
pub(crate) fn asked() -> usize {
    NOTES.with_borrow(|notes| notes.asked)
}

/// Returns the depth of this thread in attempts.
pub(crate) fn depth() -> usize {
    NOTES.with_borrow(|notes| notes.inside.len())
}

/// Writes a line between those of the witness.
pub(crate) fn note(line: impl Into<String>) {
    NOTES.with_borrow_mut(|notes| notes.lines.push(line.into()));
}

/// Records a mistake, which fails the test that takes the notes.
pub(crate) fn mistake(mistake: String) {
    locked(&MISTAKES).push(mistake);
}

/// Asserts that a thread which has nothing more to do is in no attempt.
pub(crate) fn thread_ends() {
    let inside = NOTES.with_borrow(|notes| notes.inside.clone());
    if !inside.is_empty() {
        mistake(format!("never left: {inside:?}"));
    }
}

fn meanwhile(function: &str) {
    let code = NOTES.with_borrow(|notes| notes.meanwhile.clone());
    if let Some(code) = code {
        code(function);
    }
}

fn id(attempt: &Attempted<'_>) -> Id {
    (attempt.call, attempt.number)
}

/// Returns a letter for the call, by the order in which this thread met it, and the number of the attempt.
fn short((call, number): Id) -> String {
    NOTES.with_borrow_mut(|notes| {
        let at = notes.calls.iter().position(|known| *known == call).unwrap_or_else(|| {
            notes.calls.push(call);
            notes.calls.len() - 1
        });
        format!("{}{number}", char::from(b'a' + u8::try_from(at % 26).expect("a letter")))
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
