//! A trace as files that other programs read.
//!
//! | | is read by |
//! |---|---|
//! | [`text()`] | people |
//! | [`html()`] | browsers: tables and a timeline in one file, without scripts |
//! | [`perfetto()`] | [ui.perfetto.dev](https://ui.perfetto.dev) and `chrome://tracing` |
//! | [`memory_viz()`] | [pytorch.org/memory_viz](https://pytorch.org/memory_viz) and `torch.cuda._memory_viz` |
//!
//! If a format requires time, it gets ticks: one event is a microsecond.

mod html;
mod memory_viz;
mod perfetto;
mod pickle;
mod stacks;
mod text;

pub(crate) use html::escaped;
pub use html::html;
pub use memory_viz::memory_viz;
pub use perfetto::perfetto;
pub use text::text;
