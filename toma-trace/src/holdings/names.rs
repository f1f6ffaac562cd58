//! Names of storages.

use std::collections::BTreeMap;

use super::category::Category;
use super::phases::Phases;
use crate::lines::birth_lines;
use crate::tables::{Block, ScopeKind, Storage, StorageId, Trace};

/// Names and categories that a program gives to its storages.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::holdings::{Catalog, Category, Names};
///
/// let (weights, _) = trace.storages().next().expect("it is recorded");
/// let mut names = Names::new();
/// names.name(weights, Category::Parameter, "linear.weight");
/// assert_eq!(Catalog::of(&trace, &names).name(weights), "linear.weight");
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<StorageId, (Category, String)>);

impl Names {
    /// Creates an empty table of names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a storage a category and a name. If several fit, such as for tied variables, the first in the order of
    /// [`Category`] stays, and among equal ones the earlier.
    pub fn name(&mut self, storage: StorageId, category: Category, name: &str) {
        let given = self.0.entry(storage).or_insert_with(|| (category, name.to_owned()));
        if category < given.0 {
            *given = (category, name.to_owned());
        }
    }
}

/// Every storage of a trace with its category and its name.
///
/// A storage without a name of its own is named by the operator that made it and its line: `mul @ src/net.rs:42`, or by
/// the phase or attempt if it is in no line. Names belong to storages. So a view has the name of the storage that it
/// shares, and a new block at an old address has a name of its own.
///
/// A storage is optimizer state if it was born in a phase called `optimizer`, such as `optimizer Adam`, and outlived
/// it. Backwards are phases called `backward`; without any, they are found by the nodes of the graph.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::Place;
/// use toma_trace::holdings::{Catalog, Holdings, Names};
///
/// let catalog = Catalog::of(&trace, &Names::new());
/// let holdings = Holdings::at_peak(&trace, &catalog, &Place::HOST);
/// assert_eq!(holdings.bytes(), 5000);
/// # Ok::<(), toma_trace::Contradiction>(())
/// ```
#[derive(Clone, Debug)]
pub struct Catalog(Vec<(Category, String)>);

impl Catalog {
    /// Builds the catalog from all storages of a trace.
    #[must_use]
    pub fn of(trace: &Trace, names: &Names) -> Self {
        let phases = Phases::of(trace);
        let mut lines = birth_lines(trace).into_iter();
        let mut rows = Vec::new();
        for (id, storage) in trace.storages() {
            let line = lines.next().flatten();
            lines.by_ref().take(storage.blocks.len() - 1).for_each(drop);
            let given = names.0.get(&id);
            let category = category(given.map(|given| given.0), storage, &phases);
            rows.push((
                category,
                given.map_or_else(|| origin(trace, &storage.blocks[0], line), |given| given.1.clone()),
            ));
        }
        Self(rows)
    }

    /// Returns the category of a storage of the trace.
    ///
    /// # Panics
    ///
    /// This and [`name`](Self::name) panic if the storage is of another trace and this one has no such row.
    #[must_use]
    pub fn category(&self, storage: StorageId) -> Category {
        self.0[storage.index()].0
    }

    /// Returns the name of a storage of the trace.
    #[must_use]
    pub fn name(&self, storage: StorageId) -> &str {
        &self.0[storage.index()].1
    }
}

fn category(given: Option<Category>, storage: &Storage, phases: &Phases) -> Category {
    let found = if phases.is_optimizer_state(storage) {
        Category::OptimizerState
    } else if storage.blocks[0].birth.is_none() {
        Category::Input
    } else if phases.is_activation(storage) {
        Category::Activation
    } else {
        Category::Temporary
    };
    given.map_or(found, |given| given.min(found))
}

/// Returns operator and line of a birth, as far as they are known.
fn origin(trace: &Trace, block: &Block, line: Option<String>) -> String {
    let Some(birth) = block.birth else { return "older than the recording".to_owned() };
    let operator = block.operator.map(|operator| trace[operator].short_name());
    let line = line.or_else(|| around(trace, block));
    birth_name(operator, line).unwrap_or_else(|| birth.thread.to_string())
}

/// Returns the name of a block by operator and line of its birth, as far as they are known.
pub(crate) fn birth_name(operator: Option<&str>, line: Option<String>) -> Option<String> {
    match (operator, line) {
        (Some(operator), Some(line)) => Some(format!("{operator} @ {line}")),
        (operator, line) => operator.map(str::to_owned).or(line),
    }
}

/// Returns the phase or the attempt in which the operator of a birth ran, for an operator in no line.
fn around(trace: &Trace, block: &Block) -> Option<String> {
    let label = &trace[trace[block.operator?].scope?].label;
    matches!(label.kind, ScopeKind::Phase | ScopeKind::Attempt).then(|| label.name.clone())
}
