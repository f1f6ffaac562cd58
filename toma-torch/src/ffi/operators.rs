//! The table of operators, which the shim reads.

use std::ffi::{CStr, c_char};

use toma_trace::operators::{self, ShapeRule};

/// `toma_named` of the shim.
#[repr(C)]
struct RawNamed {
    gathers: bool,
    hands_back: bool,
    detaches: bool,
    writes_workspace: bool,
    resizes: bool,
    calls_others: bool,
    calls_others_on_cpu: bool,
    calls_none: bool,
    copies_operands: bool,
    takes_scratch: bool,
    takes_no_scratch: bool,
    runs_on_meta: bool,
    reads_statistics: bool,
    reduces: bool,
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
        gathers: properties.has(operators::GATHERS),
        hands_back: properties.has(operators::HANDS_BACK),
        detaches: properties.has(operators::DETACHES),
        writes_workspace: properties.has(operators::WRITES_WORKSPACE),
        resizes: properties.has(operators::RESIZES),
        calls_others: properties.has(operators::CALLS_OTHERS),
        calls_others_on_cpu: properties.has(operators::CALLS_OTHERS_ON_CPU),
        calls_none: properties.has(operators::CALLS_NONE),
        copies_operands: properties.has(operators::COPIES_OPERANDS),
        takes_scratch: properties.has(operators::TAKES_SCRATCH),
        takes_no_scratch: properties.has(operators::TAKES_NO_SCRATCH),
        runs_on_meta: properties.has(operators::RUNS_ON_META),
        reads_statistics: properties.has(operators::READS_STATISTICS),
        reduces: properties.has(operators::REDUCES),
        shape_rule: properties.shape_rule().map_or(0, |rule: ShapeRule| rule as u8),
    }
}
