//! Random nets, rows and budgets: forms with a prediction never run out of memory, and use the memory there is.
//!
//! `TOMA_BUDGETS=N` draws this many budgets instead of the 72 of the checks, and `TOMA_STRESS_SEED=SEED` repeats a
//! draw.

use fastrand::Rng;
use tch::{Kind, Reduction};
use toma_core::Bisect;
use toma_core::NoCache;
use toma_core::execute;
use toma_core::report::Report;
use toma_torch::cpu::Budget;
use toma_torch::{Backward as _, Device, DryRun, Forward as _, Loss};

use crate::ground::peak_of;
use crate::nine::{self, Learner};
use crate::stage::{alone, report, setting};

/// The most rows of a case.
const MOST: usize = 40;

/// A drawn case: training or inference of a net on this many rows.
#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    trains: bool,
}

impl Case {
    /// Runs all rows in pieces of at most `most`, with no gradients defined before.
    fn run(self, net: &Learner, most: usize, is_predicted: bool) {
        let (device, data) = (Device::new(tch::Device::Cpu), net.first(self.rows));
        let form = execute::with::<NoCache>().device(&device).policy(Bisect::default()).max(most);
        let form = form.key((net.name, self.trains));
        let form = if is_predicted { form.predict(&DryRun) } else { form };
        net.forget_gradients();
        if self.trains {
            drop(form.backward(Loss::Mean, &net.variables, &data, |rows| {
                let output = net.of(rows);
                output.mse_loss(&output.zeros_like(), Reduction::Mean)
            }));
        } else {
            drop(form.forward(&data, |rows| net.of(rows).sum_dim_intlist(-1, false, Kind::Float)));
        }
    }

    /// The peak bytes beyond those before, in pieces of at most `most` rows.
    fn peak(self, net: &Learner, most: usize) -> u64 {
        net.forget_gradients();
        let peak = peak_of(|| self.run(net, most, false));
        net.forget_gradients();
        peak
    }

    /// Returns true if the next larger pieces fit with the head-room, although they are over 95 % and one item larger.
    ///
    /// Pieces are even, so sizes differ only if they make fewer pieces. A prediction may be 1 % too high, as it may be
    /// 1 % too low, because scratch grows in steps. It may then miss such a size.
    fn fits_more(self, net: &Learner, size: usize, bytes: u64) -> bool {
        let fewer = self.rows.div_ceil(size) - 1;
        let larger = self.rows.div_ceil(fewer.max(1));
        fewer > 0 && larger > size * 100 / 95 + 1 && self.peak(net, larger) <= bytes - bytes / 50
    }

    fn under(self, net: &Learner, bytes: u64) -> Report {
        net.forget_gradients();
        let _budget = Budget::beyond_allocated(bytes);
        self.run(net, self.rows, true);
        report()
    }
}

/// Runs one case, and describes the mistake if there is one.
///
/// Budgets range from a single item with the head-room to the whole. Fewer than 8 rows are predicted from fewer than 4,
/// at which libraries choose other kernels, so one failure is allowed there.
fn mistake(net: &Learner, random: &mut Rng) -> Option<String> {
    // Without gradients oneDNN's LSTM corrupts the heap on some processors, and batch norm in training couples all rows
    // of the output.
    let only_trains = net.name == "lstm" || net.name.contains("norm");
    let trains = only_trains || random.bool();
    // Outputs of two items cannot be judged if libtorch chooses other operators for one.
    let case = Case { rows: random.usize(if trains { 2 } else { 3 }..=MOST), trains };
    let [whole, single] = [case.rows, 1].map(|most| case.peak(net, most));
    let least = single + single / 50;
    let bytes = random.u64(least..=whole.max(least) * 11 / 10);
    let report = case.under(net, bytes);
    let is_sure = case.rows >= 8;
    let is_out = report.out_of_memory > usize::from(!is_sure);
    let is_wasted =
        is_sure && report.predicted.is_none_or(|predicted| case.fits_more(net, predicted.size, bytes));
    (is_out || is_wasted)
        .then(|| format!("{}, {case:?}, {bytes} bytes of {single} to {whole}: {report}", net.name))
}

#[test]
fn random_budgets_never_run_out_and_95_percent_are_used() {
    let _alone = alone();
    let seed = setting("TOMA_STRESS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let of_a_net = setting("TOMA_BUDGETS").unwrap_or(72).div_ceil(9);
    let mut random = Rng::with_seed(seed);
    nine::each(|net| {
        let wrong: Vec<_> = (0..of_a_net).filter_map(|_| mistake(net, &mut random)).collect();
        let count = wrong.len();
        assert!(count == 0, "TOMA_STRESS_SEED={seed}, {count} of {of_a_net} are wrong\n{}", wrong.join("\n"));
    });
}
