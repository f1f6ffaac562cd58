//! A `tracing` subscriber that records its events.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// One event: level, target, and all fields as `name=value`, in order.
pub(crate) type Line = String;

#[derive(Clone)]
pub(crate) struct Collect {
    most: LevelFilter,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Collect {
    /// Returns a subscriber that is interested in events up to this level.
    pub(crate) fn up_to(most: LevelFilter) -> Self {
        Self { most, lines: Arc::default() }
    }

    /// Runs `work` with this subscriber on this thread, and returns the recorded events of this crate.
    pub(crate) fn during(&self, work: impl FnOnce()) -> String {
        tracing::subscriber::with_default(self.clone(), work);
        // `tracing` computes its maximum level when a subscriber comes, and includes those that are gone since. Without
        // a new subscriber that is interested in nothing, calls of other tests would stay observed.
        drop(Dispatch::new(Self::up_to(LevelFilter::OFF)));
        std::mem::take(&mut *self.lines.lock().unwrap()).concat()
    }
}

impl Subscriber for Collect {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (event.metadata().level(), event.metadata().target());
        self.lines.lock().unwrap().push(format!("{level} {target}:{}\n", fields.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(String);

impl Fields {
    fn push(&mut self, field: &Field, value: &dyn fmt::Display) {
        // Values that differ from run to run.
        let known = match field.name() {
            "call" | "elapsed" => &field.name().to_uppercase() as &dyn fmt::Display,
            _ => value,
        };
        write!(self.0, " {}={known}", field.name()).expect("a string takes everything");
    }
}

impl Visit for Fields {
    /// A number reaches the subscriber as a number, not as text.
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, &format_args!("{value:?}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, &format_args!("<{value:?}>"));
    }
}
