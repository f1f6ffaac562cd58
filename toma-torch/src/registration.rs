//! Registrations of libtorch before `main`, so that attempts are guarded without a call by the user, and output after
//! `main`.
//!
//! # Why
//!
//! A program that is linked with this package need not call anything. libtorch takes a backtrace fetcher without a
//! lock, so it is set before threads run. In a library that is loaded later, backtraces stay libtorch's.

use tch::TchError;
use toma_core::{classify, ranks, thread_state};

use crate::error::{Error, ErrorKind};
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
        ffi::install_operators();
        let _ = ffi::install_backtraces();
        classify::add_error(error::class_of);
        classify::add_error(error::class_of_tch);
        ranks::add_error(|error| TchError::Torch(error.to_string()));
        ranks::add_error(|error| Error::new(ErrorKind::Other, error.to_string()));
        // Refused only if a program has registered modes of its own even earlier.
        let _ = thread_state::register(&TorchModes);
        ffi::toma_region_install();
        profile::register();
        profile::install();
    }
}
