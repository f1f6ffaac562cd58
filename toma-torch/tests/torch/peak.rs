//! `assert_peak!` measures the bytes that an expression allocates on its thread, and disturbs nothing else.

use std::cell::{Cell, RefCell};
use std::thread;

use tch::{Kind, TchError, Tensor};
use toma::NoCache;
use toma::classify::{Class, classify_panic, classify_text};
use toma::{assert_peak, execute};
use toma_torch::dry_run;

use crate::ground::{self, Budget, peak_of};
use crate::nets::{NETS, ROWS, Road};
use crate::stage::{ROW, alone, caught, panic_of, rows, size};

#[test]
fn the_bound_itself_is_not_too_much_and_one_byte_less_is() {
    let _alone = alone();
    let step = || drop((rows(1), rows(2)));
    assert_peak!(3 * ROW, step());
    let text = panic_of(|| assert_peak!(3 * ROW - 1, step()));
    assert_eq!(
        text,
        "assert_peak: peak of 12.00K (12288 bytes): must be at most 12.00K (12287 bytes)\n\
         host holds 12.00K of it: 8.00K temporary, 4.00K activation\n  \
         8.00K  temporary   zeros (2, 1024)\n  \
         4.00K  activation  zeros (1, 1024)"
    );
}

#[test]
fn the_largest_holders_at_the_peak_are_named_with_operator_and_shape() {
    let _alone = alone();
    let (input, weight) = (rows(3), rows(1024));
    let text = panic_of(|| {
        let _ = assert_peak!(0, {
            let product = input.matmul(&weight);
            let _gone = Tensor::zeros([1], ground::floats());
            drop(product.exp());
            drop(product.relu());
            product.sum(Kind::Float)
        });
    });
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "assert_peak: peak of 24.00K (24580 bytes): must be at most 0.00B (0 bytes)");
    let named = |words: &str| lines[2..].iter().any(|line| line.ends_with(words));
    assert!(named("  mm (3, 1024)") && lines.len() == 5, "{text}");
    assert!(!text.contains(" sum "), "it came after the peak: {text}");
}

#[test]
fn its_message_is_no_out_of_memory_to_a_loop() {
    let _alone = alone();
    let text = panic_of(|| assert_peak!(8, drop(rows(600))));
    assert_eq!(classify_text(&text).class, Class::Other, "{text}");
    let payload = thread::spawn(|| assert_peak!(8, drop(rows(1)))).join().unwrap_err();
    assert_eq!(classify_panic(&*payload).class, Class::Other);
    let attempts = Cell::new(0);
    let passed_on = panic_of(|| {
        execute::with::<NoCache>().batch(16, |items| {
            attempts.set(attempts.get() + 1);
            assert_peak!(2 * ROW, drop(rows(items)));
        });
    });
    assert!(passed_on.contains("peak of 64.00K (65536 bytes)"), "{passed_on}");
    assert_eq!(attempts.get(), 1);
}

#[test]
fn out_of_memory_within_goes_through_to_the_loop() {
    let _alone = alone();
    let _budget = Budget::beyond_allocated(5 * ROW);
    let tried = RefCell::new(Vec::new());
    let seen = |items| tried.borrow_mut().push(items);
    execute::with::<NoCache>().batch(16, |items| {
        seen(items);
        assert_peak!(4 * ROW, drop(rows(items)));
    });
    let by_error: Result<(), TchError> = execute::with::<NoCache>().batch(16, |items| {
        seen(items);
        assert_peak!(5 * ROW, drop((rows(1), Tensor::f_zeros([size(items), 1024], ground::floats())?)));
        Ok(())
    });
    by_error.unwrap();
    assert_eq!(tried.take(), [16, 8, 4, 16, 8, 4]);
}

#[test]
fn memory_from_before_neither_counts_nor_makes_room() {
    let _alone = alone();
    let held = rows(100);
    assert_peak!(ROW, drop(rows(1)));
    let text = panic_of(move || {
        let _ = assert_peak!(ROW, {
            drop(held);
            rows(2)
        });
    });
    assert!(text.contains("peak of 8.00K"), "{text}");
    // Bytes freed before the next allocation do make room.
    assert_peak!(2 * ROW, {
        drop(rows(2));
        drop(rows(2));
    });
}

#[test]
fn other_threads_neither_count_nor_are_counted() {
    let _alone = alone();
    thread::scope(|scope| {
        let noise = scope.spawn(|| (0..200).for_each(|_| drop(rows(64))));
        for _ in 0..50 {
            assert_peak!(ROW, drop(rows(1)));
        }
        noise.join().unwrap();
    });
    let text = caught(|| assert_peak!(0, thread::spawn(|| rows(8)).join().unwrap()));
    assert_eq!(text.map(|tensor| tensor.size()), Ok(vec![8, 1024]));
}

/// Returns the value, or ends early in every possible form.
fn ends(end: u32) -> Result<u32, TchError> {
    for _ in 0..1 {
        let value = assert_peak!(
            8 * ROW,
            match end {
                0 => return Ok(100),
                1 => break,
                2 => continue,
                3 => Tensor::f_zeros([-1], ground::floats()).map(|_| 0)?,
                _ => end,
            },
        );
        return Ok(value);
    }
    Ok(200)
}

#[test]
fn control_flow_is_as_without_it() {
    let _alone = alone();
    let ended: Vec<_> = (0..5).map(|end| ends(end).ok()).collect();
    assert_eq!(ended, [Some(100), Some(200), Some(200), None, Some(4)]);
    // Measuring has ended, and nothing is left over.
    let before = ground::allocated_bytes();
    drop(rows(10));
    assert_eq!(ground::allocated_bytes(), before);
    assert_peak!(ROW, drop(rows(1)));
}

#[test]
fn values_are_moved_borrowed_and_infer_as_without_it() {
    let _alone = alone();
    let mut words = vec!["a".to_owned()];
    // A temporary that the value borrows lives to the end of the statement.
    assert_eq!(assert_peak!(0, "a b".to_owned().as_str()).len(), 3);
    let first: &mut String = assert_peak!(0, &mut words[0]);
    first.push('!');
    let moved = assert_peak!(0, words);
    let collected: Vec<usize> = assert_peak!(0, moved.iter().map(String::len).collect());
    assert_eq!(collected, [2]);
    let from_const = {
        const BOUND: u64 = 1 << 12;
        BOUND
    };
    let tensor = assert_peak!(from_const, rows(1));
    assert_eq!(tensor.size(), [1, 1024]);
}

#[test]
fn each_of_several_within_another_sees_its_own() {
    let _alone = alone();
    assert_peak!(6 * ROW, {
        let _held = assert_peak!(4 * ROW, rows(4));
        assert_peak!(2 * ROW, drop(rows(2)));
    });
    let inner = panic_of(|| assert_peak!(100 * ROW, assert_peak!(ROW, drop(rows(2)))));
    assert!(inner.contains("8.00K (8192 bytes): must be at most 4.00K"), "{inner}");
    let outer = panic_of(|| assert_peak!(ROW, assert_peak!(100 * ROW, drop(rows(2)))));
    assert!(outer.contains("8.00K (8192 bytes): must be at most 4.00K"), "{outer}");
}

fn own_panic() {
    panic!("its own words");
}

#[test]
fn a_panic_within_goes_through_and_ends_the_measuring() {
    let _alone = alone();
    let text = panic_of(|| {
        assert_peak!(0, {
            let _held = rows(4);
            own_panic();
        });
    });
    assert_eq!(text, "its own words");
    assert_peak!(ROW, drop(rows(1)));
}

#[test]
fn a_backward_is_measured_with_what_it_leaves() {
    let _alone = alone();
    let weight = rows(4).set_requires_grad(true);
    let step = || (&weight * 2.0).square().sum(Kind::Float).backward();
    let text = panic_of(|| assert_peak!(0, step()));
    let peak = text.split_once('(').and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
    let peak: u64 = peak.parse().unwrap();
    assert!(peak >= 8 * ROW, "{text}");
    weight.shallow_clone().zero_grad();
    // A step with gradients defined allocates no more than one before.
    assert!(peak_of(step) <= peak, "{text}");
}

#[test]
fn a_dry_run_is_not_measured() {
    let _alone = alone();
    let dry = dry_run(|| assert_peak!(0, rows(4)).size()[0]);
    assert_eq!(dry.unwrap().operators().len(), 1);
    assert!(caught(|| assert_peak!(0, rows(4))).is_err());
}

#[track_caller]
fn is_exactly_what_is_counted(name: &str, step: &dyn Fn()) {
    let peak = peak_of(step);
    assert_peak!(peak, step());
    let text = panic_of(|| assert_peak!(peak - 1, step()));
    assert!(text.contains(&format!("({peak} bytes): must be at most ")), "{name}: {text}");
    assert_eq!(peak_of(step), peak, "{name}: it is the same each time");
}

#[test]
fn steps_of_nets_take_exactly_what_the_allocator_counts() {
    let _alone = alone();
    for net in NETS {
        let net = net();
        // The first step makes the gradients.
        net.zero_gradients();
        is_exactly_what_is_counted(net.name, &|| {
            tch::manual_seed(3);
            net.loss(Road::Panics, &(0..ROWS)).unwrap().backward();
        });
    }
}

#[test]
fn random_programs_take_exactly_what_the_allocator_counts() {
    let _alone = alone();
    let program = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut living = vec![Tensor::ones([4], ground::floats())];
        for _ in 0..60 {
            let of = &living[random.usize(..living.len())];
            let made = match random.u32(..6) {
                0 => Tensor::zeros([size(random.usize(..50)), 3], ground::floats()),
                1 => of.exp(),
                2 => Tensor::stack(&[of, of], 0).mean(Kind::Double),
                3 => of.detach().reshape(-1),
                4 => Tensor::cat(&[of, of], 0),
                _ => {
                    drop(living.swap_remove(random.usize(..living.len())));
                    Tensor::from_slice(&[1_u8, 2])
                }
            };
            living.push(if made.numel() > 1000 || made.dim() == 0 {
                made.reshape(-1).narrow(0, 0, 1)
            } else {
                made
            });
        }
    };
    for seed in 0..100 {
        is_exactly_what_is_counted(&format!("program {seed}"), &|| program(seed));
    }
}

/// The lines of the example in the documentation.
#[test]
fn the_example_prints_the_documented_text() {
    let _alone = alone();
    let rows = Tensor::ones([1024, 256], ground::floats());
    let text = panic_of(|| drop(assert_peak!(1 << 20, rows.cos().exp())));
    assert_eq!(
        text,
        "assert_peak: peak of 2.00M (2097152 bytes): must be at most 1.00M (1048576 bytes)\n\
         host holds 2.00M of it: 1.00M activation, 1.00M temporary\n  \
         1.00M  activation  cos (1024, 256)\n  \
         1.00M  temporary   exp (1024, 256)"
    );
}
