//! Learns the digits once with all the memory it takes, and once for each budget and eviction.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use clap::ValueEnum as _;
use tch::Device;
use tch::nn::{self, OptimizerConfig as _};
use toma::torch::offload::{Manager, Report};
use toma::torch::{Backward as _, Loss, cpu};
use toma::{NoCache, execute};

use crate::data::Set;
use crate::net::Net;
use crate::{Arguments, Policy, Result, Share};

const SHARES: [Share; 2] = [Share::Percent(60), Share::Percent(40)];

/// Result of one run.
struct Learned {
    /// Loss of each step, as bits.
    losses: Vec<u64>,
    peak_bytes: u64,
    took: Duration,
    report: Option<Report>,
}

pub(crate) fn run(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    // From the first tensor on, so that the parameters are counted, too.
    cpu::count();
    // Times mean nothing if threads of libtorch wait for a core.
    tch::set_num_threads(1);
    let Arguments { batch, steps, .. } = arguments;
    let batches = Set::fixed_batches(arguments.batch.get(), arguments.steps.get())?;
    let name = arguments.net.to_possible_value().ok_or("a net without a name")?;
    writeln!(
        to,
        "{} learns digits, {batch} in each of {steps} steps. Bytes are those beside the data.\n",
        name.get_name()
    )?;
    writeln!(
        to,
        "{:<12}{:>10} {:>10} {:>10} {:>10} {:>7} {:>9} {:>8}",
        "", "budget", "peak", "in", "out", "stalls", "stalled", "seconds"
    )?;
    let resident = learn(arguments, &batches, None)?;
    resident.write("resident", None, to)?;
    let shares = if arguments.budget.is_empty() { &SHARES } else { &*arguments.budget };
    let policies = if arguments.policy.is_empty() { Policy::value_variants() } else { &*arguments.policy };
    for share in shares {
        let budget = share.of(resident.peak_bytes);
        for policy in policies {
            let learned = caught(|| learn(arguments, &batches, Some((*policy, budget))));
            let learned = learned.map_err(|error| format!("{policy} in {}: {error}", ByteSize(budget)))?;
            learned.write(&policy.to_string(), Some(budget), to)?;
            check(&resident, &learned, *policy, budget)?;
        }
    }
    writeln!(to, "\nlosses equal")?;
    Ok(())
}

/// Turns a panic into an error, because nets of tch panic if memory runs out while they are created.
fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(panic.downcast_ref::<String>().map_or("a panic", String::as_str).to_owned().into())
    })
}

/// This example is a test as well, so it checks its own results.
fn check(resident: &Learned, learned: &Learned, policy: Policy, budget: u64) -> Result<()> {
    if learned.losses != resident.losses {
        return Err(
            format!("losses by {policy} in {} are not those of the resident run", ByteSize(budget)).into()
        );
    }
    if learned.peak_bytes > budget {
        return Err(format!("{policy} took {} bytes in a budget of {budget}", learned.peak_bytes).into());
    }
    Ok(())
}

fn learn(arguments: &Arguments, batches: &[Set], within: Option<(Policy, u64)>) -> Result<Learned> {
    let held = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let manager = within.map(|(policy, bytes)| {
        let manager = Manager::new(&toma::torch::Device::new(Device::Cpu)).budget(held + bytes);
        manager.eviction(policy.eviction())
    });
    // The only line that a program needs: the code below is plain tch.
    let _entered = manager.as_ref().map(Manager::enter).transpose()?;
    tch::manual_seed(7);
    let net = Net::new(arguments.net);
    let mut optimizer = nn::Adam::default().build(&net.variables, 5e-3)?;
    let begun = Instant::now();
    let losses = batches.iter().map(|batch| step(&net, &mut optimizer, batch)).collect::<Result<_>>()?;
    let (took, peak_bytes) = (begun.elapsed(), cpu::peak_allocated_bytes() - held);
    Ok(Learned { losses, peak_bytes, took, report: manager.map(|manager| manager.report()) })
}

/// Runs a step on a whole batch, which is not cut.
fn step(net: &Net, optimizer: &mut nn::Optimizer, batch: &Set) -> Result<u64> {
    let form = execute::with::<NoCache>().min(batch.len()).name("step");
    let data = (&batch.images, &batch.classes);
    let loss =
        form.backward_step(Loss::Mean, optimizer, data, |(images, classes)| net.loss(images, classes))?;
    Ok(loss.double_value(&[]).to_bits())
}

impl Learned {
    fn write(&self, name: &str, budget: Option<u64>, to: &mut dyn Write) -> Result<()> {
        let size = |bytes: u64| ByteSize(bytes).to_string();
        let moved = self.report.map_or_else(Default::default, |report| {
            let stalled = format!("{:.3} s", report.stalled.as_secs_f64());
            [size(report.bytes_in), size(report.bytes_out), report.stalls.to_string(), stalled]
        });
        let [bytes_in, bytes_out, stalls, stalled] = moved;
        let (budget, peak) = (budget.map(size).unwrap_or_default(), size(self.peak_bytes));
        let seconds = self.took.as_secs_f64();
        writeln!(
            to,
            "{name:<12}{budget:>10} {peak:>10} {bytes_in:>10} {bytes_out:>10} {stalls:>7} {stalled:>9} {seconds:>8.2}"
        )?;
        Ok(())
    }
}
