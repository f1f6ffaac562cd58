//! What panics print, and what the tests' error type means.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use toma::classify::add_error;

pub(crate) use crate::printed::printed;
use crate::printed::{self, texts};
use crate::stage::Fault;

/// Makes the process ready: panics are counted, and the tests' error type is known. Every test begins here.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        printed::prepare();
        add_error::<Fault>(|fault| Some(fault.class));
    });
}

/// What a property that does not hold says, kept to itself while smaller cases are looked for.
pub(crate) fn complaint(property: impl FnOnce()) -> Result<(), String> {
    let (result, mut texts) = texts(|| catch_unwind(AssertUnwindSafe(property)));
    result.map_err(|_| texts.pop().unwrap_or_default())
}
