//! Operators that libtorch reports to a recording.

use std::ffi::{CStr, c_char};

use toma_trace::counting::{self, NameId, Node};

/// `toma_listener` of the shim.
#[repr(C)]
struct Listener {
    named: extern "C" fn(*const c_char) -> u32,
    operator_begins: extern "C" fn(u32, u64),
    node_begins: extern "C" fn(u32, u64),
    ends: extern "C" fn(),
}

unsafe extern "C" {
    safe fn toma_profile_operators(listener: Option<&'static Listener>);
    safe fn toma_profile_position() -> u64;
    safe fn toma_profile_node() -> u64;
    // `named` is a function of this module.
    safe fn toma_profile_operator(named: extern "C" fn(*const c_char) -> u32) -> u32;
}

extern "C" fn named(name: *const c_char) -> u32 {
    // SAFETY: libtorch passes text that ends with a zero and lives through the call.
    let name = unsafe { CStr::from_ptr(name) };
    counting::name(&name.to_string_lossy()).number()
}

extern "C" fn operator_begins(name: u32, node: u64) {
    counting::operator_begins(NameId::of_number(name), Node(node));
}

extern "C" fn node_begins(name: u32, node: u64) {
    counting::node_begins(NameId::of_number(name), Node(node));
}

extern "C" fn ends() {
    counting::ends();
}

/// Starts or stops reporting every operator of every thread to the current recording.
pub(crate) fn report_operators(are_reported: bool) {
    static LISTENER: Listener = Listener { named, operator_begins, node_begins, ends };
    toma_profile_operators(are_reported.then_some(&LISTENER));
}

/// Returns the number that the next operator of this thread will share with the node of its gradient.
pub(crate) fn position() -> Node {
    Node(toma_profile_position())
}

/// Returns the node that this thread runs.
pub(super) fn node() -> Node {
    Node(toma_profile_node())
}

/// Returns the operator that this thread is in, found by its stack.
pub(super) fn operator_of_stack() -> NameId {
    NameId::of_number(toma_profile_operator(named))
}
