//! Live bytes, peaks and holders against a twin that stores all live storages after each event.

use proptest::prelude::*;
use proptest::sample::Index;
use toma_trace::{Place, StorageId, Tick, Trace};

use crate::gpu;
use crate::random::{Action, Player, actions};

/// The storages that hold a block, with place and bytes.
type Alive = Vec<(StorageId, Place, u64)>;

/// The live storages after each event; the first entry is before all of them.
struct Twin(Vec<Alive>);

impl Twin {
    fn now(&self) -> Alive {
        self.0[self.0.len() - 1].clone()
    }

    /// Returns true if the twin would accept the player's action; `None` if it cannot decide.
    fn follows(&mut self, player: &Player, action: &Action) -> Option<bool> {
        let storage = |index: &Index| player.storage(*index);
        let holds = |id: StorageId| self.now().iter().find(|(storage, ..)| *storage == id).cloned();
        Some(match action {
            Action::Rebirth(_, index, ..) => storage(index).is_some_and(|id| holds(id).is_none()),
            Action::Death(_, index) => storage(index).and_then(holds).is_some(),
            Action::Existing(..) | Action::Birth(..) | Action::BeginOperator(_) | Action::BeginScope(_) => {
                true
            }
            Action::EndOperator(_) | Action::EndScope(_) | Action::Uses(..) => return None,
        })
    }

    fn accept(&mut self, action: &Action, storage: Option<StorageId>) {
        let mut now = self.now();
        match (action, storage) {
            (Action::Existing(place, bytes), Some(id)) => {
                self.0.iter_mut().for_each(|alive| alive.push((id, place.clone(), *bytes)));
                return;
            }
            (Action::Birth(_, place, bytes) | Action::Rebirth(_, _, place, bytes), Some(id)) => {
                now.push((id, place.clone(), *bytes));
            }
            (Action::Death(..), Some(id)) => now.retain(|(storage, ..)| *storage != id),
            _ => {}
        }
        self.0.push(now);
    }
}

fn sum(alive: &Alive, place: &Place) -> u64 {
    alive.iter().filter(|(_, at, _)| at == place).map(|(.., bytes)| bytes).sum()
}

/// Plays all actions on both.
fn played(actions: &[Action]) -> (Trace, Twin) {
    let (mut player, mut twin) = (Player::default(), Twin(vec![Alive::new()]));
    for action in actions {
        let expected = twin.follows(&player, action);
        let named = match action {
            Action::Rebirth(_, index, ..) | Action::Death(_, index) => player.storage(*index),
            _ => None,
        };
        let accepted = player.play(action);
        assert!(expected.is_none_or(|expected| expected == accepted), "{action:?}");
        if accepted {
            let is_new = matches!(action, Action::Existing(..) | Action::Birth(..));
            let newest = is_new.then(|| player.newest()).flatten();
            twin.accept(action, named.or(newest));
        }
    }
    (player.recorder.finish(), twin)
}

proptest! {
    #[test]
    fn live_bytes_are_those_of_the_twin(actions in actions()) {
        let (trace, Twin(moments)) = played(&actions);
        let ticks = trace_ticks(&trace);
        for place in [Place::HOST, gpu()] {
            let live = trace.live(&place);
            let expected: Vec<_> = moments.iter().map(|alive| sum(alive, &place)).collect();
            for (tick, bytes) in ticks.iter().zip(&expected) {
                prop_assert_eq!(live.at(*tick), *bytes, "{} at tick {}", place, tick);
            }
            prop_assert_eq!(live.before(), expected[0]);
            prop_assert_eq!(live.steps()[0].0, Tick::START);
            prop_assert!(live.steps().is_sorted_by(|a, b| a.0 < b.0));
            prop_assert_eq!(live.after(), *expected.last().unwrap());
            let peak = *expected.iter().max().unwrap();
            let first = expected.iter().position(|bytes| *bytes == peak).unwrap();
            prop_assert_eq!((live.peak().bytes, live.peak().tick), (peak, ticks[first]));
        }
        for (tick, alive) in ticks.into_iter().zip(&moments) {
            let holders = trace.holders(&gpu(), tick);
            prop_assert!(holders.is_sorted_by(|a, b| a.bytes >= b.bytes));
            let mut found: Vec<_> = holders.iter().map(|holder| (holder.storage, gpu(), holder.bytes)).collect();
            let mut expected: Alive = alive.iter().filter(|(_, at, _)| *at == gpu()).cloned().collect();
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}

/// The start, and then every tick of the trace: no list of events lacks one.
fn trace_ticks(trace: &Trace) -> Vec<Tick> {
    let of_operators = trace.operators().map(|(_, operator)| operator.interval);
    let intervals: Vec<_> = of_operators.chain(trace.scopes().map(|(_, scope)| scope.interval)).collect();
    let moments = trace.blocks().flat_map(|(_, block)| [block.birth, block.death]).flatten();
    let mut ticks: Vec<_> = moments.map(|moment| moment.tick).collect();
    ticks.extend(intervals.iter().flat_map(|interval| [interval.begin, interval.end]));
    ticks.extend(trace.uses().iter().map(|used| used.tick));
    ticks.push(Tick::START);
    ticks.sort();
    assert!(ticks.windows(2).all(|pair| pair[0].count() + 1 == pair[1].count()), "{ticks:?}");
    ticks
}
