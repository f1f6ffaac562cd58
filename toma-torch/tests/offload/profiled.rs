//! Recordings next to a manager that moves storages.

use crate::ground::{self, figures};
use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::offload::Lru;
use toma_torch::profile::{Depth, Profiler, Recording, inventory};
use toma_trace::holdings::{Catalog, Holdings, Names};
use toma_trace::lines::Figures;
use toma_trace::{ScopeKind, Tick, Trace};

use crate::kit::{Rule, alone, entered};

const MIB: u64 = 1 << 20;

/// Returns the growth of the bytes on the device.
fn growth(figures: &Figures) -> i128 {
    figures.net() + i128::from(figures.fetched) - i128::from(figures.offloaded)
}

fn layers(variables: &VarStore) -> Vec<nn::Linear> {
    let layer = |at| nn::linear(variables.root() / at, 256, 256, nn::LinearConfig::default());
    (0..4).map(layer).collect()
}

/// Trains, and notes the allocated bytes after each layer and at the end of each step.
#[toma::profile]
fn train(variables: &VarStore, layers: &[nn::Linear], notes: &mut Vec<u64>) {
    let mut optimizer = Rule::Adam.build(variables);
    for _ in 0..3 {
        let mut x = Tensor::ones([64, 256], ground::floats());
        for layer in layers {
            x = layer.forward(&x).tanh();
            notes.push(ground::allocated_bytes());
        }
        optimizer.backward_step(&x.square().mean(Kind::Float));
        notes.push(ground::allocated_bytes());
    }
}

#[toma::profile]
fn all(variables: &VarStore, layers: &[nn::Linear], notes: &mut Vec<u64>) {
    train(variables, layers, notes);
}

/// Ticks of the lines that take notes, in a trace.
fn note_ticks(trace: &Trace) -> Vec<Tick> {
    let lines = trace.scopes().filter(|(_, scope)| scope.label.kind == ScopeKind::Line);
    let notes = lines.filter(|(_, scope)| scope.label.name.trim().starts_with("notes.push("));
    let mut ticks: Vec<_> = notes.map(|(_, scope)| scope.interval.begin).collect();
    ticks.sort_unstable();
    ticks
}

#[test]
fn living_bytes_are_the_allocators_while_storages_move() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let variables = VarStore::new(ground::device());
        let layers = layers(&variables);
        let (manager, _entered) = entered(u64::MAX / 2, Lru);
        drop(manager.adopt_all(&variables));
        manager.set_budget(ground::allocated_bytes() + MIB).unwrap();
        let profiling = Profiler::new().depth(depth).variables(&variables).start().unwrap();
        let (before, mut notes) = (ground::allocated_bytes(), Vec::new());
        ground::reset_peak_allocated_bytes();
        all(&variables, &layers, &mut notes);
        let (after, peak) = (ground::allocated_bytes(), ground::peak_allocated_bytes());
        let recording = profiling.finish();
        assert!(manager.report().fetches > 10, "{}", manager.report());
        let line = figures(&recording, "all", "train(variables, layers, notes);");
        assert_eq!(growth(&line), i128::from(after) - i128::from(before), "{depth:?}: {line:?}");
        assert_eq!((line.fetched, line.peak), (manager.report().bytes_in, peak), "{depth:?}");
        assert_eq!(recording.peak().bytes, peak, "{depth:?}");
        let Some(trace) = recording.trace() else { continue };
        let living = trace.live(&ground::place());
        let recorded: Vec<_> = note_ticks(trace).into_iter().map(|tick| living.at(tick)).collect();
        assert_eq!((recorded, living.after()), (notes.clone(), after));
        let catalog = Catalog::of(trace, &Names::new());
        for (tick, noted) in note_ticks(trace).into_iter().zip(notes) {
            let held = Holdings::at(trace, &catalog, &ground::place(), tick);
            assert_eq!(held.by_category().values().sum::<u64>(), noted);
        }
    }
}

#[toma::profile]
fn make() -> Tensor {
    Tensor::ones([512, 512], ground::floats())
}

#[toma::profile]
fn add_up(weight: &Tensor) -> Tensor {
    weight.sum(Kind::Float)
}

#[test]
fn a_line_that_fetches_is_marked_and_the_line_that_made_it_keeps_it() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    for depth in [Depth::Lines, Depth::Events] {
        let profiling = Profiler::new().depth(depth).start().unwrap();
        let weight = make();
        manager.adopt(&weight).offload().unwrap();
        let kept = |recording: &Recording| {
            figures(recording, "make", "Tensor::ones([512, 512], ground::floats())").kept
        };
        let sum = add_up(&weight);
        let recording = profiling.finish();
        let line = figures(&recording, "add_up", "weight.sum(Kind::Float)");
        assert_eq!((line.fetched, line.allocated, line.kept, line.offloaded), (MIB, 4, 4, 0), "{depth:?}");
        assert!(line.rise >= MIB, "a reading of the device: {line:?}");
        assert_eq!(kept(&recording), MIB, "{depth:?}");
        let table = recording.lines().to_string();
        assert!(table.contains("peak  fetched  line  code\n"), "{table}");
        let Some(trace) = recording.trace() else { continue };
        let (_, storage) =
            trace.storages().find(|(_, storage)| storage.blocks.len() == 2).expect("it came back");
        let operator = storage.blocks[1].operator.expect("the operator that requested it");
        assert_eq!((storage.blocks[1].bytes, &*trace[operator].name), (MIB, "aten::sum"));
        drop(sum);
    }
    let profiling = Profiler::new().start().unwrap();
    drop(make());
    let recording = profiling.finish();
    assert!(!recording.lines().to_string().contains("fetched"), "nothing was");
}

/// Names also follow storages that are older than the recording, and moves between recordings.
#[test]
fn names_follow_storages_that_move() {
    let _alone = alone();
    let variables = VarStore::new(ground::device());
    let layers = layers(&variables);
    let input = Tensor::ones([512, 512], ground::floats());
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let named = || {
        let taken = inventory().device(ground::device()).take().unwrap();
        let names = taken.items().iter().map(|item| item.name.clone());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("Adam.") || name == "input").collect();
        names.sort();
        names
    };
    let profiler = Profiler::new().depth(Depth::Events).variables(&variables).label("input", &input);
    let profiling = profiler.start().unwrap();
    let mut optimizer = Rule::Adam.build(&variables);
    let forward = || layers.iter().fold(input.narrow(1, 0, 256), |x, layer| layer.forward(&x));
    forward().square().mean(Kind::Float).backward();
    toma_torch::profile::optimizer("Adam", || optimizer.step());
    drop(manager.adopt(&input));
    let before = named();
    assert!(before.len() > 16 && before.contains(&"input".to_owned()), "{before:?}");
    let mut all_move = || {
        let fetches = manager.report().fetches;
        manager.set_budget(ground::allocated_bytes() - 5 * MIB / 2).unwrap();
        forward().square().mean(Kind::Float).backward();
        optimizer.step();
        manager.set_budget(u64::MAX / 2).unwrap();
        manager.fetch_all().unwrap();
        manager.report().fetches - fetches
    };
    assert!(all_move() > 8);
    assert_eq!(named(), before);
    let recording = profiling.finish();
    let moved = recording.trace().unwrap().storages().filter(|(_, storage)| storage.blocks.len() > 1);
    assert!(moved.count() > 8);
    let states: Vec<_> = named().into_iter().filter(|name| name != "input").collect();
    assert!(all_move() > 8);
    let later: Vec<_> = named().into_iter().filter(|name| name != "input").collect();
    assert_eq!(later, states);
}
