//! The option `predict = &DryRun` in the engine's own forms and in attributes.

use std::cell::{Cell, RefCell};

use tch::{TchError, Tensor};
use toma_core::predict::is_dry;
use toma_core::{GlobalCache, NoCache};
use toma_torch::{Device, DryRun};

use crate::child;
use crate::executor::block_on;
use crate::ground::{self, Budget};
use crate::named::Named;
use crate::nine;
use crate::predict::counted;
use crate::stage::{With, alone, panic_of, predicted, printed, report, rows, size};

const ITEMS: usize = 48;

fn cpu_device() -> Device {
    Device::new(ground::device())
}

/// Takes two rows for each item, and leaves one.
fn work(data: &Tensor, start: usize, end: usize) -> Tensor {
    data.narrow(0, size(start), size(end - start)).exp().square()
}

fn fresh(count: usize) -> Tensor {
    rows(count).exp()
}

#[toma::batch(initial = 48, cache = NoCache, device = cpu_device(), predict = &DryRun)]
fn batch_attribute(count: usize) {
    drop(fresh(count));
}

#[toma::range(cache = NoCache, device = cpu_device(), predict = &DryRun)]
fn range_attribute(start: i64, end: i64, data: &Tensor) {
    drop(data.narrow(0, start, end - start).exp().square());
}

#[toma::chunked(cache = NoCache, policy = toma::Adaptive::default(), device = Device::of(data), predict = &DryRun)]
fn chunked_attribute(data: &Tensor, start: usize, end: usize) {
    assert_eq!(data.size()[0], size(end - start));
    drop(data.exp().square());
}

type Form = fn(With, &Tensor);

const FORMS: [(&str, Form); 9] = [
    ("batch", |with, _| drop(with.batch(ITEMS, fresh))),
    ("range", |with, data| with.range(0..ITEMS, ITEMS, |start, end| drop(work(data, start, end)))),
    ("chunked", |with, data| with.chunked(data, ITEMS, |rows, _, _| drop(rows.exp().square()))),
    ("fold", |with, data| {
        let zero = Tensor::zeros([], ground::floats());
        let sum = with.fold(0..ITEMS, ITEMS, zero, |sum, start, end| {
            sum + work(data, start, end).sum(tch::Kind::Float)
        });
        assert_eq!(sum.double_value(&[]), 1024.0 * 48.0);
    }),
    ("iter", |with, data| {
        with.iter(0..ITEMS, ITEMS, |start, end| work(data, start, end)).for_each(drop);
    }),
    ("by_cost", |with, data| {
        with.by_cost(|_| 1).range(0..ITEMS, ITEMS, |start, end| drop(work(data, start, end)));
    }),
    ("batch attribute", |_, _| batch_attribute()),
    ("range attribute", |_, data| range_attribute(0, size(ITEMS), data)),
    ("chunked attribute", |_, data| chunked_attribute(data)),
];

#[test]
fn every_form_starts_at_the_largest_size_that_fits() {
    let _alone = alone();
    let data = rows(ITEMS);
    for (name, form) in FORMS {
        for fit in [1, 3, 20, 47] {
            let budget = Budget::beyond_allocated(fit * 2 * 4096 + 4096);
            form(predicted(), &data);
            drop(budget);
            let report = report();
            assert_eq!((report.out_of_memory, report.start as u64), (0, fit), "{name}: {report}");
            let predicted = report.predicted.expect("it is predicted");
            assert!(predicted.needs_bytes <= predicted.free_bytes, "{name}: {report}");
        }
        form(predicted(), &data);
        assert_eq!((report().attempts, report().start), (1, ITEMS), "{name}");
    }
}

/// Returns the peak bytes of these pieces. Each takes two rows per item, in addition to one for each item before.
fn held(pieces: &[usize]) -> u64 {
    let (mut before, mut most) = (0, 0);
    for piece in pieces {
        most = most.max(before + 2 * piece);
        before += piece;
    }
    4096 * most as u64
}

/// Returns the larger peak of two cuts: full pieces with a rest, and even pieces.
fn needs(items: usize, piece: usize) -> u64 {
    let count = items.div_ceil(piece);
    let mut full = vec![piece; count - 1];
    full.push(items - piece * (count - 1));
    let even: Vec<_> = (0..count).map(|index| (items + count - 1 - index) / count).collect();
    held(&full).max(held(&even))
}

/// The results of earlier pieces take room from the later ones; the last one is smaller.
#[test]
fn values_that_map_holds_are_counted() {
    let _alone = alone();
    for (items, bytes) in
        [48, 47, 33].into_iter().flat_map(|items| (items + 3..2 * items).map(move |rows| (items, rows)))
    {
        let (data, bytes) = (rows(items), bytes as u64 * 4096);
        let fits = (1..=items).rfind(|piece| needs(items, *piece) <= bytes - bytes.div_ceil(100));
        let body = |start, end| work(&data, start, end);
        for is_even in [false, true] {
            let budget = Budget::beyond_allocated(bytes);
            let values = if is_even {
                predicted().evenly().map(0..items, items, body)
            } else {
                predicted().map(0..items, items, body)
            };
            drop(budget);
            let predicted = report().predicted.map(|predicted| (predicted.size, predicted.needs_bytes));
            let expected = fits.map(|piece| (piece, needs(items, piece)));
            assert_eq!(
                (predicted, report().out_of_memory),
                (expected, 0),
                "{bytes}, {is_even}: {}",
                report()
            );
            assert_eq!(values.iter().map(|value| value.size()[0]).sum::<i64>(), size(items));
        }
    }
}

/// If sizes are costs, a full piece may come after smaller ones.
#[test]
fn values_before_a_full_piece_of_costs_are_counted() {
    let _alone = alone();
    let (data, starts) = (rows(17), [0, 6, 14, 17]);
    // A size of 12 runs as 6 and 11, of which the second needs 28 rows; 12 and 5 would need 24, and 9 and 8 need 25.
    for bytes in (23..40).map(|rows| rows * 4150) {
        let budget = Budget::beyond_allocated(bytes);
        let form = predicted().by_cost(|item| [6, 8, 3][item]);
        let values = form.map(0..3, 17, |start, end| work(&data, starts[start], starts[end]));
        drop(budget);
        assert_eq!(values.iter().map(|value| value.size()[0]).sum::<i64>(), 17);
        assert_eq!(report().out_of_memory, 0, "{bytes}: {}", report());
    }
}

/// At few rows libraries choose other kernels, whose scratch differs.
#[test]
fn a_small_size_is_confirmed_with_its_scratch() {
    let _alone = alone();
    nine::each(|net| {
        for rows in [2, 3, 6] {
            let least = counted(net, rows, 1);
            let budget = Budget::beyond_allocated(least + least / 25);
            drop(predicted().key((net.name, rows)).batch(ITEMS, |size| net.step(size)));
            drop(budget);
            let report = report();
            let predicted = report.predicted.expect("it is predicted");
            assert!(
                predicted.size >= rows && report.out_of_memory == 0,
                "{}, {rows} rows: {report}",
                net.name
            );
            let (needed, counted) = (predicted.needs_bytes, counted(net, predicted.size, 1));
            let off = needed.abs_diff(counted);
            assert!(off * 50 < counted, "{}, {} rows: {off} of {counted} bytes", net.name, predicted.size);
        }
    });
}

#[test]
fn effects_of_dry_pieces_are_undone_the_last_first() {
    let _alone = alone();
    let data = rows(ITEMS);
    let (done, undone) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let undo = |piece: std::ops::Range<usize>| {
        assert!(is_dry(), "nothing fails");
        assert_eq!(done.borrow_mut().pop(), Some((piece.clone(), true)));
        undone.borrow_mut().push(piece);
    };
    let _budget = Budget::beyond_allocated(32 * 4096 + 4096);
    predicted().before_retry(undo).range(1000..1048, ITEMS, |start, end| {
        done.borrow_mut().push((start..end, is_dry()));
        drop(work(&data, start - 1000, end - 1000));
    });
    let real = [(1000..1016, false), (1016..1032, false), (1032..1048, false)];
    assert_eq!(*done.borrow(), real);
    let dry = [1000..1004, 1000..1004, 1000..1008, 1000..1008, 1000..1016, 1000..1016];
    assert_eq!(*undone.borrow(), dry);
}

/// `before_retry` of the attribute, and a body that skips its effects in a dry run, so that they need no undo.
#[test]
fn before_retry_of_an_attribute_and_is_dry() {
    #[toma::chunked(initial = 16, cache = NoCache, device = Device::of(data), predict = &DryRun,
        before_retry = { seen.borrow_mut().pop(); })]
    fn count(data: &Tensor, start: usize, end: usize, seen: &RefCell<Vec<usize>>, real: &Cell<usize>) {
        seen.borrow_mut().push(start);
        drop(data.exp());
        if !is_dry() {
            real.set(real.get() + end - start);
        }
    }
    let _alone = alone();
    let (seen, real) = (RefCell::default(), Cell::new(0));
    count(&rows(ITEMS), &seen, &real);
    assert_eq!((seen.into_inner(), real.get()), (vec![0, 16, 32], ITEMS));
}

/// Returns how often a form runs its body dry for this many items.
fn dry_runs(items: usize, run: impl FnOnce(&dyn Fn())) -> usize {
    let dry = Cell::new(0);
    run(&|| dry.set(dry.get() + usize::from(is_dry())));
    assert_eq!(report().done, items, "{}", report());
    dry.get()
}

#[test]
fn a_value_so_far_is_the_first_again() {
    let _alone = alone();
    let seen = RefCell::new(Vec::new());
    let sum = predicted().fold(0..6, 3, vec![7], |sum, start, end| {
        seen.borrow_mut().push((is_dry(), sum.clone()));
        drop(fresh(end - start));
        sum.iter().copied().chain(start..end).collect::<Vec<_>>()
    });
    assert_eq!(sum, [7, 0, 1, 2, 3, 4, 5]);
    let seen = seen.into_inner();
    assert_eq!(seen[..2], [(true, vec![7]), (true, vec![7, 0])], "{seen:?}");
    assert_eq!(seen[seen.len() - 2..], [(false, vec![7]), (false, vec![7, 0, 1, 2])]);
}

#[test]
fn few_items_and_none() {
    let _alone = alone();
    for (items, dry) in [(0, 0), (1, 0), (2, 4), (3, 4), (4, 4), (7, 4), (8, 4), (9, 6)] {
        let runs = dry_runs(items, |note| {
            predicted().key(items).range(0..items, items.max(1), |start, end| {
                note();
                drop(fresh(end - start));
            });
        });
        assert_eq!((items, runs), (items, dry));
        assert_eq!(report().predicted.is_some(), items > 1, "{items}");
    }
    let runs = dry_runs(1, |note| {
        predicted().batch(1, |_| note());
    });
    assert_eq!(runs, 0, "there is nothing to choose");
}

#[test]
fn sizes_are_those_that_the_call_could_use() {
    let _alone = alone();
    let sizes = RefCell::new(Vec::new());
    predicted().multiple_of(6).min(10).max(40).batch(64, |size| {
        sizes.borrow_mut().push((size, is_dry()));
        drop(fresh(size));
    });
    assert_eq!(sizes.into_inner(), [(12, true), (24, true), (36, true), (36, false)]);
}

#[test]
fn a_prediction_is_kept_by_line_key_and_shape() {
    let _alone = alone();
    let run = |data: &Tensor, key: usize| {
        dry_runs(ITEMS, |note| {
            predicted().key(key).chunked((data, data), ITEMS, |(rows, _), _, _| {
                note();
                drop(rows.exp());
            });
        })
    };
    let (narrow, wide) = (Tensor::ones([48, 8], ground::floats()), Tensor::ones([48, 16], ground::floats()));
    assert_eq!([run(&narrow, 1), run(&narrow, 1)], [6, 0]);
    assert_eq!([run(&wide, 1), run(&wide, 1), run(&narrow, 1)], [6, 0, 0]);
    assert_eq!([run(&narrow, 2), run(&narrow, 2)], [6, 0]);
}

#[test]
fn where_a_size_is_remembered_nothing_runs_dry() {
    let _alone = alone();
    let cache = GlobalCache::new();
    cache.seed("seeded", 5);
    let runs = dry_runs(ITEMS, |note| {
        predicted().cache(&cache).name("seeded").range(0..ITEMS, ITEMS, |_, _| note());
    });
    assert_eq!((runs, report().start, report().predicted), (0, 5, None));
}

#[test]
fn nothing_is_learned_reported_or_left_by_a_dry_run() {
    let _alone = alone();
    let (data, cache, inner) = (rows(ITEMS), GlobalCache::new(), Cell::new(0));
    ground::count();
    let allocated = ground::allocated_bytes();
    predicted().cache(&cache).range(0..ITEMS, ITEMS, |start, end| {
        // A nested loop runs its body once, and notifies no observer.
        predicted().cache(&cache).range(start..end, end - start, |start, end| {
            if is_dry() {
                inner.set(inner.get() + 1);
            }
            drop(work(&data, start, end));
        });
    });
    assert_eq!(ground::allocated_bytes(), allocated);
    assert_eq!(cache.entries().len(), 0);
    // Twice at three sizes for the outer loop, and as often for the nested loop, which is predicted, too.
    assert_eq!(inner.get(), 6 + 6);
    assert_eq!(report().attempts, 1);
}

#[test]
fn a_panic_in_a_dry_run_is_no_prediction_and_nothing_stays_dry() {
    let _alone = alone();
    let mut items = 0;
    let ((), printed) = printed(|| {
        predicted().range(0..ITEMS, ITEMS, |start, end| {
            let _rows = fresh(end - start);
            assert!(!is_dry(), "the stress test of a body");
            items += end - start;
        });
    });
    assert_eq!((items, printed), (ITEMS, 0));
    assert_eq!(report().predicted, None);
    assert!(!is_dry());
    assert_eq!(fresh(1).sum(tch::Kind::Float).double_value(&[]), 1024.0);
    let kept = RefCell::new(Vec::new());
    let text = panic_of(|| {
        predicted().range(0..ITEMS, ITEMS, |_, end| kept.borrow_mut().push(fresh(end)));
    });
    assert!(
        text.starts_with("dry run: the body kept 4 tensors of ")
            || text.starts_with("dry run: the body kept 2 tensors of "),
        "{text}"
    );
    assert!(text.contains("made by aten::exp"), "{text}");
}

#[toma::range(initial = 8, cache = NoCache, device = cpu_device(), predict = &DryRun)]
async fn asynchronous(start: usize, end: usize) {
    assert!(!is_dry());
    drop(fresh(end - start));
}

#[test]
fn a_body_that_cannot_run_dry_is_measured_and_reported_once() {
    let name = "dry_calls::a_body_that_cannot_run_dry_is_measured_and_reported_once";
    if let Some(ended) = child::run(name, &[]) {
        let mut stderr = ended.passed();
        stderr.retain(|line| line.starts_with("toma: "));
        let starts = [
            "toma: in the stream: ",
            "toma: torch::dry_calls::asynchronous: ",
            "toma: fails dry: ",
            "toma: elsewhere: ",
        ];
        let ends = [
            "not predicted: an asynchronous body cannot run dry",
            "not predicted: an asynchronous body cannot run dry",
            "not predicted: dry run of 4 items: Internal torch error: no",
            "not predicted: memory `elsewhere` is of no device that libtorch knows",
        ];
        assert_eq!(
            stderr,
            std::iter::zip(starts, ends).map(|(start, end)| format!("{start}{end}")).collect::<Vec<_>>()
        );
        return;
    }
    let _alone = alone();
    for key in 0..2 {
        let mut stream =
            predicted().name("in the stream").key(key).stream(0..8, 8, async |start, end| fresh(end - start));
        assert_eq!(block_on(stream.next()).unwrap().size()[0], 8);
        block_on(asynchronous(0, 8));
        assert_eq!((report().predicted, report().done), (None, 8));
    }
    for _ in 0..2 {
        let done = predicted()
            .name("fails dry")
            .range(0..8, 8, |_, _| if is_dry() { Err(TchError::Torch("no".to_owned())) } else { Ok(()) });
        assert!(done.is_ok());
        assert_eq!((report().predicted, report().attempts), (None, 1));
        predicted().device(&Named("elsewhere")).name("elsewhere").range(0..8, 8, |_, _| ());
    }
}

#[test]
fn it_can_be_turned_off() {
    if let Some(ended) = child::run("dry_calls::it_can_be_turned_off", &[("TOMA_PREDICT", "0")]) {
        ended.passed();
        return;
    }
    let _alone = alone();
    let runs = dry_runs(8, |note| predicted().range(0..8, 8, |_, _| note()));
    assert_eq!((runs, report().predicted), (0, None));
}
