//! Random recordings. Most kinds of events are refused now and then, and all recordings are small.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use toma_trace::{
    Access, Label, Operand, OperatorId, Place, Recorder, ScopeId, ScopeKind, StorageId, ThreadId, Trace,
};

use crate::{MAIN, OTHER, gpu};

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Existing(Place, u64),
    Birth(ThreadId, Place, u64),
    Rebirth(ThreadId, Index, Place, u64),
    Death(ThreadId, Index),
    BeginOperator(ThreadId),
    EndOperator(Index),
    BeginScope(ThreadId),
    EndScope(Index),
    Uses(Index, Index, Access),
}

pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let thread = || select(vec![MAIN, OTHER]);
    let place = || select(vec![Place::HOST, gpu()]);
    let index = any::<Index>;
    let access = select(vec![Access::Reads, Access::Writes, Access::Makes, Access::Views]);
    let action = prop_oneof![
        1 => (place(), 0..9_u64).prop_map(|(place, bytes)| Action::Existing(place, bytes)),
        4 => (thread(), place(), 0..9_u64).prop_map(|(thread, place, bytes)| Action::Birth(thread, place, bytes)),
        1 => (thread(), index(), place(), 0..9_u64)
            .prop_map(|(thread, storage, place, bytes)| Action::Rebirth(thread, storage, place, bytes)),
        3 => (thread(), index()).prop_map(|(thread, storage)| Action::Death(thread, storage)),
        2 => thread().prop_map(Action::BeginOperator),
        2 => index().prop_map(Action::EndOperator),
        1 => thread().prop_map(Action::BeginScope),
        1 => index().prop_map(Action::EndScope),
        2 => (index(), index(), access).prop_map(|(operator, storage, access)| Action::Uses(operator, storage, access)),
    ];
    vec(action, 0..60)
}

/// Records actions, without those that are refused.
pub(crate) fn recorded(actions: &[Action]) -> Trace {
    let mut player = Player::default();
    for action in actions {
        player.play(action);
    }
    player.recorder.finish()
}

/// Plays actions one by one, with the ids recorded so far.
#[derive(Default)]
pub(crate) struct Player {
    pub(crate) recorder: Recorder,
    storages: Vec<StorageId>,
    operators: Vec<OperatorId>,
    scopes: Vec<ScopeId>,
}

impl Player {
    /// Returns true if the event was possible and accepted.
    pub(crate) fn play(&mut self, action: &Action) -> bool {
        self.try_play(action).is_some()
    }

    /// The storage of an index, if there is any.
    pub(crate) fn storage(&self, index: Index) -> Option<StorageId> {
        (!self.storages.is_empty()).then(|| *index.get(&self.storages))
    }

    /// The storage that was recorded last.
    pub(crate) fn newest(&self) -> Option<StorageId> {
        self.storages.last().copied()
    }

    fn try_play(&mut self, action: &Action) -> Option<()> {
        match action {
            Action::Existing(place, bytes) => self.storages.push(self.recorder.existing(place, *bytes).ok()?),
            Action::Birth(thread, place, bytes) => {
                self.storages.push(self.recorder.birth(*thread, place, *bytes).ok()?);
            }
            Action::Rebirth(thread, storage, place, bytes) => {
                let storage = self.storage(*storage)?;
                self.recorder.rebirth(*thread, storage, place, *bytes).ok()?;
            }
            Action::Death(thread, storage) => self.recorder.death(*thread, self.storage(*storage)?).ok()?,
            Action::BeginOperator(thread) => self.begin_operator(*thread),
            Action::EndOperator(index) => self.recorder.end_operator(pick(*index, &self.operators)?).ok()?,
            Action::BeginScope(thread) => {
                let label = Label::new(ScopeKind::Line, "step").at("src/main.rs", 7).with("size", &[4]);
                self.scopes.push(self.recorder.begin_scope(*thread, label));
            }
            Action::EndScope(index) => self.recorder.end_scope(pick(*index, &self.scopes)?).ok()?,
            Action::Uses(operator, storage, access) => {
                let operand = Operand::new(self.storage(*storage)?, *access, &[2, 3]);
                let operand = Operand { wants_gradient: true, ..operand };
                self.recorder.uses(pick(*operator, &self.operators)?, operand).ok()?;
            }
        }
        Some(())
    }

    fn begin_operator(&mut self, thread: ThreadId) {
        let id = self.recorder.begin_operator(thread, "aten::softmax");
        self.recorder.attribute(id, "dim", &[-1]).unwrap();
        self.recorder.number(id, "scale", -0.5).unwrap();
        self.recorder.duration(id, Duration::from_micros(3)).unwrap();
        self.operators.push(id);
    }
}

fn pick<T: Copy>(index: Index, ids: &[T]) -> Option<T> {
    (!ids.is_empty()).then(|| *index.get(ids))
}
