//! The table of operators, which the shim reads.

use std::array;
use std::ffi::{CStr, c_char};

use toma_trace::operators::{self, ShapeRule};

/// Number of flags in `toma_named`, of which `reduces` is the last.
const FLAGS: usize = 14;

const _: () =
    assert!(operators::REDUCES == 1_u32 << (FLAGS - 1), "flags are passed in the order of their bits");

/// `toma_named` of the shim.
#[repr(C)]
struct RawNamed {
    /// A flag for each of the first constants of `toma_trace::operators`, in the order of their bits.
    has: [bool; FLAGS],
    /// `ShapeRule` of the operator; 0 for none.
    shape_rule: u8,
}

unsafe extern "C" {
    safe fn toma_operators_install(named: extern "C" fn(*const c_char) -> RawNamed);
}

/// Passes the table to the shim, before `main`.
pub(crate) fn install_operators() {
    toma_operators_install(named);
}

extern "C" fn named(name: *const c_char) -> RawNamed {
    // SAFETY: the shim passes the name of a schema, which ends with a zero and outlives the call.
    let name = unsafe { CStr::from_ptr(name) };
    let properties = operators::named(name.to_str().unwrap_or_default());
    RawNamed {
        has: array::from_fn(|bit| properties.has(1_u32 << bit)),
        shape_rule: properties.shape_rule().map_or(0, |rule: ShapeRule| rule as u8),
    }
}
