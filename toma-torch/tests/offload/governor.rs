//! Rows of evicted tables are gathered on the host, without a fetch of the table.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ground;
use tch::{Kind, TchError, Tensor};
use toma_torch::offload::{Governor, Lru, Manager, Residency, TensorRef};

use crate::kit::{alone, bits, entered, manager};

const ROWS: i64 = 300;
const BYTES: u64 = 300 * 40 * 4;

fn table() -> Tensor {
    (Tensor::arange(ROWS * 40, ground::floats()) * 0.37).sin().view([ROWS, 40])
}

type Takes = fn(&Tensor) -> Result<Tensor, TchError>;
type Gather = (&'static str, Takes);

fn numbers(of: &[i64]) -> Tensor {
    Tensor::from_slice(of).to_device(ground::device())
}

const GATHERS: &[Gather] = &[
    ("embedding", |table| {
        Tensor::f_embedding(table, &numbers(&[5, 299, 0, 5]).view([2, 2]), -1, false, false)
    }),
    ("embedding, padded, by short numbers", |table| {
        Tensor::f_embedding(table, &numbers(&[2, 3]).to_kind(Kind::Int), 3, true, false)
    }),
    ("index_select", |table| table.f_index_select(0, &numbers(&[7, 7, 298]))),
    ("index", |table| table.f_index(&[Some(numbers(&[-1, 4, -300]).view([3, 1]))])),
    ("rows in every other column", |table| table.slice(1, 1, 30, 2).f_index_select(0, &numbers(&[3, 250]))),
    ("rows of a part, by numbers that are apart", |table| {
        let numbers = Tensor::arange(20, (Kind::Int64, ground::device())).slice(0, 3, 20, 5);
        embedded(&table.narrow(0, 100, 50), &numbers)
    }),
    ("columns", |table| table.transpose(0, 1).f_index_select(0, &numbers(&[39, 0]))),
    ("other kinds", |table| table.view_dtype(Kind::Int).f_index_select(0, &numbers(&[39, 0]))),
    ("halves", |table| {
        let halves = table.view_dtype(Kind::Half);
        halves.f_index_select(0, &numbers(&[5, 4])).map(|rows| rows.view_dtype(Kind::Int))
    }),
    ("embedding, with all options", |table| Tensor::f_embedding(table, &numbers(&[2, 3]), -298, true, true)),
    ("the same row many times", |table| {
        table.narrow(0, 9, 1).f_expand([100, 40], false)?.f_index_select(0, &numbers(&[99, 0]))
    }),
    ("of three dims, by negative ones", |table| {
        table.view([30, 10, 40]).f_index(&[Some(numbers(&[-30, -1]))])
    }),
    ("one row", |table| table.f_index_select(0, &Tensor::from(17_i64))),
    ("no row", |table| table.f_index_select(0, &Tensor::zeros([0], (Kind::Int64, ground::device())))),
];

fn embedded(table: &Tensor, numbers: &Tensor) -> Result<Tensor, TchError> {
    Tensor::f_embedding(table, numbers, -1, false, false)
}

/// A table in the memory of the host, and one in a file.
fn outside(manager: &Manager) -> [(&'static str, TensorRef); 2] {
    let path = std::env::temp_dir().join(format!("toma-governor-{}.safetensors", std::process::id()));
    Tensor::write_safetensors(&[("table", table())], &path).unwrap();
    let (_, in_file) = manager.read_safetensors(&path).unwrap().remove(0);
    std::fs::remove_file(&path).unwrap();
    let in_memory = manager.adopt(&table());
    in_memory.offload().unwrap();
    [("memory", in_memory), ("a file", in_file)]
}

#[test]
fn rows_are_taken_outside_and_are_the_same() {
    let _alone = alone();
    let plain = table();
    let expected: Vec<_> = GATHERS.iter().map(|(_, gather)| gather(&plain).unwrap()).collect();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    for (tier, table) in outside(&manager) {
        for ((name, gather), expected) in GATHERS.iter().zip(&expected) {
            let before = manager.report();
            let rows = gather(&table).unwrap();
            assert_eq!((rows.size(), rows.kind()), (expected.size(), expected.kind()), "{name} in {tier}");
            assert_eq!(bits(&rows), bits(expected), "{name} in {tier}");
            let after = manager.report();
            assert_eq!(
                (after.gathers, after.gathered_bytes),
                (before.gathers + 1, before.gathered_bytes + BYTES)
            );
            assert_eq!(
                (after.bytes_in, table.residency()),
                (before.bytes_in, Residency::Offloaded),
                "{name} in {tier}"
            );
        }
    }
    let report = manager.report().to_string();
    assert!(report.ends_with("gathers from 1.28M of evicted tables"), "{report}");
}

#[test]
fn other_operators_find_the_table_on_the_device() {
    let _alone = alone();
    let expected = bits(&table().index_select(0, &numbers(&[7])));
    let moves = |manager: &Manager, table: &TensorRef, gather: &dyn Fn(&Tensor) -> Tensor| {
        table.offload().unwrap();
        let before = manager.report();
        let result = gather(table);
        let after = manager.report();
        assert_eq!((table.residency(), after.gathers), (Residency::Resident, before.gathers));
        assert_eq!(after.bytes_in, before.bytes_in + BYTES);
        result
    };
    {
        let manager = manager(Lru).governor(Governor::Off);
        let _entered = manager.enter().unwrap();
        let table = manager.adopt(&table());
        assert_eq!(bits(&moves(&manager, &table, &|table| table.index_select(0, &numbers(&[7])))), expected);
    }
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let own = manager.adopt(&table());
    let all = Tensor::arange(ROWS, (Kind::Int64, ground::device()));
    let all = moves(&manager, &own, &|table| table.index_select(0, &all));
    assert_eq!(bits(&all), bits(&own));
    let _columns = moves(&manager, &own, &|table| table.index_select(1, &numbers(&[7])));
    let _by_two = moves(&manager, &own, &|table| table.index(&[Some(numbers(&[7])), Some(numbers(&[1]))]));
    let _by_mask =
        moves(&manager, &own, &|table| table.index(&[Some(Tensor::arange(ROWS, ground::floats()).lt(2))]));
    let learns = own.set_requires_grad(true);
    let row = moves(&manager, &own, &|_| learns.index_select(0, &numbers(&[7])));
    row.sum(Kind::Float).backward();
    assert_eq!(learns.grad().sum(Kind::Float).double_value(&[]).to_bits(), 40_f64.to_bits());
    own.offload().unwrap();
    let before = manager.report().gathers;
    let row = tch::no_grad(|| learns.index_select(0, &numbers(&[7])));
    assert_eq!((bits(&row), manager.report().gathers), (expected, before + 1));
}

/// Regions, dry runs and pressure do not change which rows an operator reads.
#[test]
fn rows_are_the_same_within_regions_dry_runs_and_under_pressure() {
    let _alone = alone();
    let weight = Tensor::ones([40, 8], ground::floats()).set_requires_grad(true);
    let hidden = |table: &Tensor| table.index_select(0, &numbers(&[7, 200])).matmul(&weight).tanh();
    let learns = |output: Tensor| {
        output.sum(Kind::Float).backward();
        let gradient = weight.grad();
        let learned = (bits(&output), bits(&gradient));
        drop(gradient.shallow_clone().zero_());
        learned
    };
    let expected = learns(hidden(&table()));
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    for (tier, table) in outside(&manager) {
        let before = manager.report().gathers;
        let regional = learns(toma_torch::checkpoint::region(|| hidden(&table)));
        assert_eq!(regional, expected, "{tier}");
        assert!(manager.report().gathers > before, "{tier}");
        assert_eq!(table.residency(), Residency::Offloaded, "{tier}");
        let before = manager.report();
        toma_torch::dry_run(|| hidden(&table)).unwrap();
        manager.predict(|| hidden(&table)).unwrap();
        let after = manager.report();
        assert_eq!((after.gathers, after.bytes_in), (before.gathers, before.bytes_in), "{tier}");
        assert_eq!((learns(hidden(&table)), table.residency()), (expected.clone(), Residency::Offloaded));
        let under = manager.on_pressure().unwrap();
        assert_eq!((learns(hidden(&table)), table.residency()), (expected.clone(), Residency::Offloaded));
        drop(under);
    }
}

/// Both tables share one host copy, which a write to one of them fetches.
#[test]
fn tables_that_share_memory_are_one() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let both = table();
    let (first, second) = (both.narrow(0, 0, 100), both.narrow(0, 100, 200));
    let expected = bits(&second.index_select(0, &numbers(&[100])));
    let handle = manager.adopt(&first);
    handle.offload().unwrap();
    assert_eq!(bits(&second.index_select(0, &numbers(&[100]))), expected);
    assert_eq!((handle.residency(), manager.report().gathers), (Residency::Offloaded, 1));
    let _written = first.shallow_clone().zero_();
    assert_eq!(handle.residency(), Residency::Resident);
    assert_eq!(bits(&second.index_select(0, &numbers(&[100]))), expected);
    handle.offload().unwrap();
    assert_eq!(bits(&first.index_select(0, &numbers(&[7]))), vec![0; 40]);
    assert_eq!(bits(&second.index_select(0, &numbers(&[100]))), expected);
}

/// The indices are in the table itself.
#[test]
fn a_table_of_its_own_numbers_comes_back() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let table = manager.adopt(&Tensor::arange(1000, (Kind::Int64, ground::device())));
    table.offload().unwrap();
    let rows = table.index_select(0, &table.narrow(0, 7, 2));
    assert_eq!((bits(&rows), table.residency()), (bits(&numbers(&[7, 8])), Residency::Resident));
}

#[test]
fn a_row_that_is_not_there_is_refused_in_the_same_words() {
    let _alone = alone();
    let first_line = |outcome: Result<Tensor, TchError>| {
        outcome.unwrap_err().to_string().lines().next().unwrap().to_owned()
    };
    let refused: [Takes; 5] = [
        |table| table.f_index_select(0, &numbers(&[3, ROWS])),
        |table| table.f_index_select(0, &numbers(&[-1])),
        |table| embedded(table, &numbers(&[0, ROWS + 1])),
        |table| table.f_index(&[Some(numbers(&[-301]))]),
        |table| table.f_index_select(0, &numbers(&[1, 2]).view([1, 2])),
    ];
    let plain = table();
    let expected = refused.map(|gather| first_line(gather(&plain)));
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    for (tier, table) in outside(&manager) {
        assert_eq!(refused.map(|gather| first_line(gather(&table))), expected, "{tier}");
        assert_eq!((table.residency(), manager.status().pinned), (Residency::Offloaded, 0), "{tier}");
    }
}

#[test]
fn a_table_larger_than_the_budget_is_read_and_follows_what_is_written() {
    let _alone = alone();
    let table = table();
    {
        let (manager, _entered) = entered(u64::MAX / 2, Lru);
        manager.adopt(&table).offload().unwrap();
    }
    for (governor, runs) in [(Governor::Off, false), (Governor::Gathers, true)] {
        let manager = manager(Lru).governor(governor).budget(ground::allocated_bytes() + BYTES / 2);
        let _entered = manager.enter().unwrap();
        let row = table.f_index_select(0, &numbers(&[7]));
        assert_eq!(row.is_ok(), runs, "{governor:?}");
        if let Err(failed) = row {
            let failed = failed.to_string();
            assert!(failed.contains("out of memory") && failed.contains("aten::index_select"), "{failed}");
        }
    }
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let handle = manager.adopt(&table);
    for add in [1.0, 2.0] {
        let before = table.index_select(0, &numbers(&[7]));
        let _written = table.shallow_clone().g_add_scalar_(add);
        handle.offload().unwrap();
        assert_eq!(bits(&table.index_select(0, &numbers(&[7]))), bits(&(before + add)));
        assert_eq!(handle.residency(), Residency::Offloaded);
    }
}

#[test]
fn a_table_that_is_parked_dropped_or_changed_is_none() {
    let _alone = alone();
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let table = manager.adopt(&table());
    let parked = manager.park().unwrap();
    let error = table.f_index_select(0, &numbers(&[7])).unwrap_err().to_string();
    assert!(error.contains("parked"), "{error}");
    parked.resume().unwrap();
    table.offload().unwrap();
    let rows = table.index_select(0, &numbers(&[7]));
    let expected = bits(&self::table().index_select(0, &numbers(&[7])));
    drop(table);
    assert_eq!((manager.status().evicted, manager.status().host_bytes), (0, 0));
    assert_eq!(bits(&rows), expected);
    let path = std::env::temp_dir().join(format!("toma-changed-{}.safetensors", std::process::id()));
    Tensor::write_safetensors(&[("table", self::table())], &path).unwrap();
    let (_, table) = manager.read_safetensors(&path).unwrap().remove(0);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let error = table.f_index_select(0, &numbers(&[7])).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("has 1000 bytes, and had"), "{error}");
}

/// Rows are read safely even if the table is evicted and fetched meanwhile.
#[test]
fn another_thread_may_bring_the_table_back_and_forth() {
    let _alone = alone();
    let expected = bits(&table().index_select(0, &numbers(&[7, 200])));
    let (manager, _entered) = entered(u64::MAX / 2, Lru);
    let (ends, inside) = (AtomicBool::new(false), manager.adopt(&table()));
    let outside = manager.adopt(&inside);
    let gathers = std::thread::scope(|scope| {
        let ends = &ends;
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // A table that is in use is not evicted.
                let _in_use = outside.offload();
                outside.fetch().unwrap();
            }
        });
        let before = manager.report().gathers;
        let mut right = 0;
        while manager.report().gathers < before + 200 {
            right += u64::from(bits(&inside.index_select(0, &numbers(&[7, 200]))) == expected);
        }
        ends.store(true, Ordering::Relaxed);
        right
    });
    assert!(gathers >= 200, "{gathers}");
}

/// A step is the same whether or not its table is on the device.
#[test]
fn a_step_that_takes_rows_is_planned() {
    let _alone = alone();
    let (table, weights) = (table(), [0, 1].map(|_| Tensor::ones([40, 300], ground::floats())));
    let (manager, _entered) = entered(ground::allocated_bytes() - BYTES / 2, Lru);
    let handle = manager.adopt(&table);
    let step = |_| {
        let rows = handle.index_select(0, &numbers(&[7, 200]));
        let hidden = weights.iter().fold(rows, |x, weight| x.matmul(weight).narrow(1, 0, 40));
        bits(&hidden)
    };
    let steps: Vec<_> = (0..3).map(|at| manager.step(|| step(at))).collect();
    assert!(steps.windows(2).all(|two| two[0] == two[1]));
    assert!(manager.report().gathers > 0, "{}", manager.report());
    assert!(manager.plan().step().is_some(), "{}", manager.plan());
    assert_eq!(handle.residency(), Residency::Offloaded);
}
