//! What the core learns of libtorch before `main`, so that attempts are guarded without a call of the user's, and
//! what is printed after it.

use toma_core::{classify, thread_state};

use crate::state::TorchModes;
use crate::{error, ffi, profile};

dtor::declarative::dtor! {
    #[dtor(unsafe)]
    fn after_main() {
        profile::print();
    }
}

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        let _ = ffi::install_backtraces();
        classify::add_error(error::class_of);
        classify::add_error(error::class_of_tch);
        // Taken only by a program that registered modes of its own even earlier.
        let _ = thread_state::register(&TorchModes);
        ffi::install_regions();
        profile::register();
        profile::install();
    }
}
