//! Generates random scenes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRunner};

use crate::printed::texts;
use crate::rounds::rounds;
use crate::rules::plan::Plan;
use crate::rules::script::{Script, Trouble};
use crate::rules::twin::Rules;

/// One call of a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) total: usize,
    pub(crate) offset: usize,
    pub(crate) rules: Rules,
    pub(crate) plan: Plan,
    pub(crate) script: Script,
    /// True for a deadline that is too far away to matter.
    pub(crate) deadline: bool,
}

/// Calls that share a size cache.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) seed: Option<usize>,
    pub(crate) calls: Vec<Case>,
}

/// Checks a property with a thousand values, and panics with the smallest value that breaks it.
pub(crate) fn check<S: Strategy>(strategy: S, property: impl Fn(&S::Value)) {
    check_some(rounds(1_000, 10_000), strategy, property);
}

/// Checks a property with `cases` values.
pub(crate) fn check_some<S: Strategy>(cases: u32, strategy: S, property: impl Fn(&S::Value)) {
    // The default generator takes most of the time of tests that are not optimized.
    let rng_algorithm = RngAlgorithm::XorShift;
    let config =
        ProptestConfig { cases, max_shrink_iters: 2_000, rng_algorithm, ..ProptestConfig::default() };
    let holds = |value: S::Value| complaint(|| property(&value)).map_err(TestCaseError::fail);
    match TestRunner::new(config).run(&strategy, holds) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{reason}\nfor {value:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Returns the message of a failing property without printing it, because smaller cases are searched for.
fn complaint(property: impl FnOnce()) -> Result<(), String> {
    let (result, mut texts) = texts(|| catch_unwind(AssertUnwindSafe(property)));
    result.map_err(|_| texts.pop().unwrap_or_default())
}

pub(crate) fn sequence() -> impl Strategy<Value = Sequence> {
    let seed = prop_oneof![2 => Just(None), 1 => (0..120_usize).prop_map(Some)];
    (seed, vec(case(plan()), 1..=3)).prop_map(|(seed, calls)| Sequence { seed, calls })
}

/// Sizes that are too large for a float to distinguish.
pub(crate) fn huge_sequence() -> impl Strategy<Value = Sequence> {
    let huge = prop_oneof![Just(usize::MAX), 1 << 53..=(1 << 53) + 64_usize, 1 << 52..=usize::MAX];
    (sequence(), huge).prop_map(|(mut sequence, huge)| {
        for case in &mut sequence.calls {
            case.rules.initial = huge;
            // Failures by size would take forever to end, and so would the weights of the items.
            if !matches!(case.script.trouble, Trouble::NonMonotone(_)) {
                case.script.trouble = Trouble::Attempts(case.script.seed);
            }
        }
        sequence
    })
}

pub(crate) fn case(plan: impl Strategy<Value = Plan>) -> impl Strategy<Value = Case> {
    let total = prop_oneof![1 => Just(0), 1 => Just(1), 8 => 2..=120_usize];
    (total, 0..40_usize, rules(), plan, script(), any::<bool>()).prop_map(
        |(total, offset, rules, plan, script, deadline)| Case {
            total,
            offset,
            rules,
            plan,
            script,
            deadline,
        },
    )
}

/// The policies of the library, and random ones.
pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![10 => shrinking_plan(), 1 => any::<u64>().prop_map(Plan::Stuck)]
}

pub(crate) fn shrinking_plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        3 => Just(Plan::Halve),
        2 => factor().prop_map(Plan::Decay),
        3 => tolerance().prop_map(Plan::Bisect),
        2 => any::<u64>().prop_map(Plan::Wild),
    ]
}

/// Factors, also as near to 0 and 1 as possible.
fn factor() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.01..0.99, 1 => Just(1.0 - f64::EPSILON / 2.0), 1 => Just(f64::MIN_POSITIVE)]
}

pub(crate) fn tolerance() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0 / 16.0), Just(0.0), 0.0..=1.0]
}

/// Valid combinations of sizes.
pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    let max = prop_oneof![2 => Just(usize::MAX), 1 => 1..=100_usize];
    let multiple_of = prop_oneof![3 => Just(1), 2 => 2..=9_usize];
    let max_attempts = prop_oneof![4 => Just(usize::MAX), 1 => 1..=6_usize];
    let min = prop_oneof![2 => Just(1), 1 => 1..=60_usize];
    (1..=100_usize, min, max, multiple_of, max_attempts).prop_map(
        |(initial, min, max, multiple_of, max_attempts)| {
            let rules = Rules { initial, min, max, multiple_of, max_attempts };
            if rules.floor() <= initial.min(max) { rules } else { Rules { min: 1, multiple_of: 1, ..rules } }
        },
    )
}

pub(crate) fn script() -> impl Strategy<Value = Script> {
    let others = prop_oneof![2 => Just(0), 1 => 2..=12_u64];
    let requested = prop_oneof![Just(None), (0..200_u64).prop_map(Some)];
    (trouble(), others, any::<u64>(), requested, reading(), reading()).prop_map(
        |(trouble, others, seed, requested, one, other)| Script {
            trouble,
            others,
            seed,
            requested,
            memory: [one, other],
            panics_only: false,
        },
    )
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        1 => Just(Trouble::Never),
        2 => (any::<u64>(), any::<u64>()).prop_map(|(some, few)| Trouble::Attempts(some & few)),
        3 => (0..=70_usize).prop_map(Trouble::Threshold),
        2 => (0..=70_usize, 1..=12_usize, 0..=70_usize)
            .prop_map(|(first, after, last)| Trouble::Moving { first, after, last }),
        2 => (0..=600_u64).prop_map(Trouble::Bytes),
        2 => any::<u64>().prop_map(Trouble::NonMonotone),
    ]
}

fn reading() -> impl Strategy<Value = Option<(u64, u64)>> {
    let any_total =
        (0..=250_u64, 0..=250_u64).prop_map(|(one, other)| Some((one.min(other), one.max(other))));
    prop_oneof![1 => Just(None), 2 => any_total, 1 => Just(Some((1, 1000))), 1 => Just(Some((900, 1000)))]
}
