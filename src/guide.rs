//! [checkpoint]: crate::guide::checkpoint
//! [devices]: crate::guide::devices
//! [neighbors]: crate::guide::neighbors
//! [offload]: crate::guide::offload
//! [options]: crate::guide::options
//! [predict]: crate::guide::predict
//! [profile]: crate::guide::profile
//! [questions]: crate::guide::questions
//! [ranks]: crate::guide::ranks
//! [retry]: crate::guide::retry
//! [tensors]: crate::guide::tensors
//! [testing]: crate::guide::testing
#![doc = include_str!("../docs/README.md")]
#![cfg_attr(
    not(feature = "tch"),
    allow(rustdoc::broken_intra_doc_links, reason = "pages of tensors are shown with the feature `tch`")
)]

/// Makes modules from files of the guide. Their links lead to files; the definitions before a page override the
/// page's own, and lead to modules. Tests leave them out: with one text alone, a test is named by the page's path
/// and line.
macro_rules! pages {
    ($($(#[cfg($shown:meta)])? $page:ident: $reference:literal,)*) => {$(
        $(#[cfg($shown)])?
        #[cfg_attr(not(doctest), doc = "[devices]: crate::guide::devices")]
        #[cfg_attr(not(doctest), doc = "[options]: crate::guide::options")]
        #[cfg_attr(not(doctest), doc = "[policy]: crate::guide::options#policies")]
        #[cfg_attr(not(doctest), doc = "[predict]: crate::guide::predict")]
        #[cfg_attr(not(doctest), doc = "[profile]: crate::guide::profile")]
        #[cfg_attr(not(doctest), doc = "[ranks]: crate::guide::ranks")]
        #[cfg_attr(not(doctest), doc = "[tensors]: crate::guide::tensors")]
        #[cfg_attr(not(doctest), doc = "[undo]: crate::guide::retry#a-body-that-can-run-twice")]
        #[cfg_attr(not(doctest), doc = "[with]: crate::execute::With")]
        #[doc = include_str!(concat!("../docs/", stringify!($page), ".md"))]
        #[cfg_attr(not(doctest), doc = concat!("# Reference\n\n", $reference))]
        pub mod $page {}
    )*};
}

pages! {
    retry: "[`batch`](crate::batch), [`range`](crate::range), [`chunked`](crate::chunked), [`execute`](crate::execute), \
            [`report`](crate::report), [`observe`](crate::observe)",
    options: "[`cache`](crate::cache), [`policy`](crate::policy), [`execute::With`](crate::execute::With)",
    devices: "[`device`](crate::device), [`memory`](crate::memory), [`leaner`](crate::leaner)",
    neighbors: "[`execute`](crate::execute), [`memory`](crate::memory), `toma::candle`",
    #[cfg(any(feature = "testing", not(doctest)))]
    testing: "`toma::testing`",
    questions: "[`classify`](crate::classify), [`memory`](crate::memory)",
}

// The programs on these pages use tch, which this package does not depend on: `toma-torch` tests them.
#[cfg(all(feature = "tch", not(doctest)))]
pages! {
    predict: "[`torch::predict`](crate::torch::predict()), [`torch::forward`](crate::torch::forward()), \
              [`torch::backward_step`](crate::torch::backward_step), [`predict`](crate::predict), [`plan`](crate::plan)",
    profile: "[`torch::profile`](crate::torch::profile), [`#[toma::profile]`](macro@crate::profile), \
              [`trace`](crate::trace)",
    checkpoint: "[`torch::checkpoint`](crate::torch::checkpoint), [`plan::checkpoint`](crate::plan::checkpoint)",
    offload: "[`torch::offload`](crate::torch::offload), [`plan::residency`](crate::plan::residency)",
    ranks: "[`ranks`](crate::ranks), [`torch::ranks`](crate::torch::ranks)",
    tensors: "[`torch`](crate::torch), [`torch::cpu`](crate::torch::cpu)",
}
