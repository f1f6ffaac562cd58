//! Categories and names of storages, and the report of the storages that filled a device.

use proptest::prelude::*;
use toma_trace::holdings::{Catalog, Category, Holding, Holdings, Names};
use toma_trace::{Access, Label, Operand, Place, Recorder, ScopeKind, StorageId, ThreadId, Tick};

use crate::lines::step;
use crate::random::{actions, recorded};
use crate::{MAIN, OTHER, gpu};

#[test]
fn categories_and_names_of_a_step() {
    use Category::{Activation, Gradient, Parameter, Temporary};

    let (trace, weight) = step().unwrap();
    let gradient = trace.storages().next_back().unwrap().0;
    let mut names = Names::new();
    names.name(weight, Parameter, "weight");
    names.name(gradient, Gradient, "weight.grad");
    let catalog = Catalog::of(&trace, &names);
    let given: Vec<_> = trace.storages().map(|(id, _)| (catalog.category(id), catalog.name(id))).collect();
    assert_eq!(
        given,
        [
            (Parameter, "weight"),
            (Activation, "mm @ src/net.rs:10"),
            (Activation, "relu @ src/net.rs:10"),
            (Activation, "sum @ src/net.rs:11"),
            (Temporary, "threshold_backward @ src/net.rs:12"),
            (Gradient, "weight.grad"),
        ]
    );
    assert_eq!(
        Holdings::at_peak(&trace, &catalog, &gpu()).asked(9000, "mm @ src/net.rs:12").to_string(),
        "\
mm @ src/net.rs:12 asked for 8.79K
cuda:0 holds 1.37K: 804.00B activation, 400.00B temporary, 100.00B parameter, 100.00B gradient
  400.00B  activation  mm @ src/net.rs:10
  400.00B  activation  relu @ src/net.rs:10
  400.00B  temporary   threshold_backward @ src/net.rs:12
  100.00B  parameter   weight
  100.00B  gradient    weight.grad
    4.00B  activation  sum @ src/net.rs:11
"
    );
}

/// A program of births and scopes, in which each row is a storage of its own.
#[derive(Default)]
struct Program(Recorder);

impl Program {
    fn born(&mut self, thread: ThreadId, operator: Option<&str>) -> StorageId {
        let operator = operator.map(|name| self.0.begin_operator(thread, name));
        let storage = self.0.birth(thread, &gpu(), 8).unwrap();
        if let Some(operator) = operator {
            self.0.end_operator(operator).unwrap();
        }
        storage
    }

    fn within(&mut self, label: Label, body: impl FnOnce(&mut Self)) {
        let scope = self.0.begin_scope(MAIN, label);
        body(self);
        self.0.end_scope(scope).unwrap();
    }
}

/// Returns the category of one storage of a program, after these categories were assigned to it.
fn category(storage: StorageId, program: Program, given: &[Category]) -> Category {
    let mut names = Names::new();
    for category in given {
        names.name(storage, *category, "x");
    }
    Catalog::of(&program.0.finish(), &names).category(storage)
}

fn phase(name: &str) -> Label {
    Label::new(ScopeKind::Phase, name)
}

fn node(number: i64) -> Label {
    Label::new(ScopeKind::Node, "Backward").with("sequence", &[number])
}

#[test]
fn tensors_that_an_optimizer_keeps_are_its_state() {
    for (dies, category_of_it) in [(false, Category::OptimizerState), (true, Category::Temporary)] {
        let mut program = Program::default();
        let mut made = None;
        program.within(phase("optimizer Adam"), |program| {
            let storage = program.born(MAIN, None);
            if dies {
                program.0.death(MAIN, storage).unwrap();
            }
            made = Some(storage);
        });
        assert_eq!(category(made.unwrap(), program, &[]), category_of_it, "dies: {dies}");
    }
    let mut program = Program::default();
    let mut made = None;
    program.within(phase("optimizer Adam"), |program| made = Some(program.born(OTHER, None)));
    assert_eq!(category(made.unwrap(), program, &[]), Category::Temporary, "another thread's");
}

#[test]
fn the_first_category_that_fits_counts() {
    for (given, expected) in [
        (&[][..], Category::Input),
        (&[Category::Input, Category::Buffer], Category::Buffer),
        (&[Category::Gradient, Category::Parameter], Category::Parameter),
        (&[Category::Temporary], Category::Input),
    ] {
        let mut program = Program::default();
        let storage = program.0.existing(&gpu(), 8).unwrap();
        assert_eq!(category(storage, program, given), expected, "{given:?}");
    }
}

#[test]
fn activations_wait_for_a_backward_or_else_for_an_operator() {
    let mut program = Program::default();
    let storage = program.born(MAIN, Some("aten::relu"));
    assert_eq!(category(storage, program, &[]), Category::Temporary, "nothing came");

    let mut program = Program::default();
    let storage = program.born(MAIN, Some("aten::relu"));
    program.born(MAIN, Some("aten::relu"));
    assert_eq!(category(storage, program, &[]), Category::Activation, "an operator came");

    let mut program = Program::default();
    program.within(phase("backward"), |_| ());
    let storage = program.born(MAIN, Some("aten::relu"));
    program.born(MAIN, Some("aten::relu"));
    assert_eq!(category(storage, program, &[]), Category::Temporary, "the backward was before");
}

/// Nodes run from the highest number down, so a higher number belongs to another backward.
#[test]
fn nodes_show_where_a_backward_begins() {
    for (numbers, expected) in [
        (&[3, 2][..], Category::Temporary),
        (&[3, -1, 2], Category::Temporary),
        (&[3, 4], Category::Activation),
    ] {
        let mut program = Program::default();
        let mut made = None;
        for number in numbers {
            program.within(node(*number), |program| made = made.or(Some(program.born(MAIN, None))));
        }
        assert_eq!(category(made.unwrap(), program, &[]), expected, "{numbers:?}");
    }
}

#[test]
fn a_storage_without_operator_or_line_is_named_by_thread_or_age() {
    let mut program = Program::default();
    let older = program.0.existing(&gpu(), 8).unwrap();
    let bare = program.born(OTHER, None);
    let operator = program.born(OTHER, Some("aten::relu"));
    let mut line = None;
    program.within(Label::new(ScopeKind::Function, "f").at("src/net.rs", 3), |program| {
        line = Some(program.born(MAIN, None));
    });
    let catalog = Catalog::of(&program.0.finish(), &Names::new());
    let names = [older, bare, operator, line.unwrap()].map(|storage| catalog.name(storage).to_owned());
    assert_eq!(names, ["older than the recording", "thread 7", "relu", "src/net.rs:3"]);
}

#[test]
fn small_holders_are_one_row_unless_all_are_asked_for() {
    let held = (0..12).map(|number| Holding::new(&format!("x{number}"), Category::Buffer, 100 + number));
    let holdings = Holdings::new(Place::HOST, held);
    let text = holdings.to_string();
    assert!(text.ends_with("  102.00B  buffer  x2\n  201.00B  in 2 others\n"), "{text}");
    assert!(text.starts_with("host holds 1.24K: 1.24K buffer\n  111.00B  buffer  x11\n"), "{text}");
    assert!(format!("{holdings:#}").ends_with("  100.00B  buffer  x0\n"), "{holdings:#}");
    assert_eq!(Holdings::new(Place::HOST, []).to_string(), "host holds 0.00B\n");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn categories_sum_to_the_living_bytes(actions in actions()) {
        let trace = recorded(&actions);
        let catalog = Catalog::of(&trace, &Names::new());
        for place in [Place::HOST, gpu()] {
            let live = trace.live(&place);
            for tick in live.steps().iter().map(|(tick, _)| *tick).chain([Tick::START, trace.end()]) {
                let holdings = Holdings::at(&trace, &catalog, &place, tick);
                prop_assert_eq!(holdings.by_category().values().sum::<u64>(), live.at(tick));
                prop_assert_eq!(holdings.bytes(), live.at(tick));
                prop_assert!(holdings.held().is_sorted_by(|a, b| a.bytes >= b.bytes));
            }
        }
    }
}

/// A storage from before is freed meanwhile, and neither counts nor makes room.
#[test]
fn storages_born_at_the_peak_are_named_by_operator_and_shape() {
    let mut recorder = Recorder::new();
    let older = recorder.existing(&gpu(), 1 << 20).unwrap();
    let born = |recorder: &mut Recorder, shape: &[u64]| {
        let operator = recorder.begin_operator(MAIN, "aten::mm");
        let made = recorder.birth(MAIN, &gpu(), 4 * shape.iter().product::<u64>()).unwrap();
        let unshaped = recorder.birth(MAIN, &gpu(), 8).unwrap();
        recorder.uses(operator, Operand::new(made, Access::Makes, shape)).unwrap();
        recorder.death(MAIN, unshaped).unwrap();
        recorder.end_operator(operator).unwrap();
        made
    };
    let first = born(&mut recorder, &[4, 8]);
    recorder.birth(MAIN, &Place::HOST, 4096).unwrap();
    recorder.death(MAIN, older).unwrap();
    born(&mut recorder, &[16]);
    recorder.death(MAIN, first).unwrap();
    born(&mut recorder, &[]);
    let trace = recorder.finish();
    assert_eq!(trace.live_born(&gpu()).peak().bytes, 128 + 64 + 8);
    assert_eq!(trace.live(&gpu()).peak().bytes, (1 << 20) + 128 + 8);
    let catalog = Catalog::of(&trace, &Names::new());
    assert_eq!(
        Holdings::born_at_peak(&trace, &catalog, &gpu()).above(100).to_string(),
        "\
peak of 200.00B (200 bytes): must be at most 100.00B (100 bytes)
cuda:0 holds 200.00B of it: 192.00B activation, 8.00B temporary
  128.00B  activation  mm (4, 8)
   64.00B  activation  mm (16,)
    8.00B  temporary   mm
"
    );
}
