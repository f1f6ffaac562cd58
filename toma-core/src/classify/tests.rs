//! The classification against real texts, real errors and arbitrary ones.

mod chains;
mod messages;
mod panics;
mod properties;
mod registering;
mod rows;

use std::error::Error;
use std::fmt;

/// The part that libtorch appends to every error: about 2 kB of C++ frames, here of functions whose names contain
/// all misleading texts.
fn backtrace() -> String {
    let frame = "c10::cuda::CUDACachingAllocator::throw(CUDA out of memory. Tried to allocate 9.00 TiB) \
                 [an illegal memory access was encountered, Cuda failure 2 'out of memory'] + 0x8c1 \
                 (0x7f2b5c1d4b21 in /opt/libtorch/lib/libc10_cuda.so)";
    let frames: Vec<String> = (0..8).map(|number| format!("frame #{number}: {frame}")).collect();
    frames.join("\n") + "\n"
}

fn with_backtrace(text: &str) -> String {
    let origin = "malloc at /pytorch/c10/cuda/CUDACachingAllocator.cpp:1346 (most recent call first)";
    format!("{text}\nException raised from {origin}:\n{}", backtrace())
}

/// The panic that tch's ordinary methods raise for an error with this text.
fn unwrapped(text: &str) -> String {
    format!("called `Result::unwrap()` on an `Err` value: Torch({text:?})")
}

/// An error with a text, on top of another.
#[derive(Debug)]
struct Link(String, Box<dyn Error>);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Link {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.1)
    }
}

/// The leaf below links with these texts, the last one outermost.
fn chain(texts: impl IntoIterator<Item = String>, leaf: impl Error + 'static) -> Box<dyn Error> {
    texts.into_iter().fold(Box::new(leaf), |below, text| Box::new(Link(text, below)))
}
