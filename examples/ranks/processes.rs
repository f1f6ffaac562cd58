//! The processes, and a single process that does the same work.

use std::env;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use toma::torch::cpu::{self, Budget};
use toma::torch::ranks::Ranks;

use crate::learning::{Learning, Ran};
use crate::{Arguments, Result};

/// Runs one of the processes: prints the record of its steps and the loss of each, and saves its weights.
pub(crate) fn work(arguments: &Arguments, weights: &Path) -> Result<()> {
    cpu::count();
    tch::set_num_threads(1);
    let ranks = Ranks::from_env()?;
    let mut learning = Learning::new(arguments)?;
    let _budget = Budget::beyond_allocated(arguments.budget(ranks.rank()).as_u64());
    let mut all = Ran::default();
    for step in 0..arguments.steps.get() {
        let (loss, ran) = learning.step(step, &ranks)?;
        all = all.and(&ran);
        println!("{loss:e}");
    }
    println!("{all}");
    if ranks.rank() == 0 {
        learning.variables.save(weights)?;
    }
    Ok(())
}

/// Lets several processes learn, and a single one, and compares their results.
pub(crate) fn compare(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    let Arguments { ranks, batch, .. } = arguments;
    // Reports wrong arguments once.
    Learning::new(arguments)?;
    writeln!(to, "{ranks} processes learn handwritten digits in steps of {batch} images, all in f64\n")?;
    let folder = env::temp_dir().join(format!("toma-ranks-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let weights = folder.join("weights.safetensors");
    let compared = together(arguments, &weights).and_then(|sent| {
        send(arguments, &sent, to)?;
        compare_with_one(arguments, &sent[0].0, &weights, to)
    });
    fs::remove_dir_all(&folder)?;
    compared
}

/// The losses of a process, and the record of its steps.
type Message = (Vec<f64>, Ran);

fn together(arguments: &Arguments, weights: &Path) -> Result<Vec<Message>> {
    // A port that is currently free.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let started = (0..arguments.ranks.get()).map(|rank| start(arguments, weights, port, rank));
    let started: Vec<_> = started.collect::<Result<_>>()?;
    let received: Vec<_> =
        started.into_iter().enumerate().map(|(rank, child)| receive(rank, child)).collect();
    // The failed rank's own error says more than the errors of the others about it.
    let is_cause = |error: &&String| !error.contains(&format!(" of {} ended ", arguments.ranks));
    if let Some(cause) = received.iter().filter_map(|received| received.as_ref().err()).find(is_cause) {
        return Err(cause.clone().into());
    }
    Ok(received.into_iter().collect::<Result<_, _>>()?)
}

fn start(arguments: &Arguments, weights: &Path, port: u16, rank: usize) -> Result<Child> {
    let Arguments { ranks, batch, steps, .. } = arguments;
    let budgets: Vec<_> = arguments.budgets.iter().map(|budget| budget.as_u64().to_string()).collect();
    let mut command = Command::new(env::current_exe()?);
    command.args(["--ranks", &ranks.to_string(), "--batch", &batch.to_string()]);
    command.args(["--steps", &steps.to_string(), "--budgets", &budgets.join(",")]);
    command.arg("--weights").arg(weights);
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command.env("RUST_BACKTRACE", "0").env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn receive(rank: usize, child: Child) -> Result<Message, String> {
    let ended = child.wait_with_output().map_err(|error| format!("rank {rank}: {error}"))?;
    let [sent, error] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if !ended.status.success() {
        let cause = error.lines().rfind(|line| !line.starts_with("note: ") && !line.is_empty());
        let cause = cause.unwrap_or("ended without a word").trim_start_matches("error: ");
        return Err(format!("rank {rank}: {cause}"));
    }
    read(&sent).ok_or_else(|| format!("rank {rank} sent {sent:?}"))
}

fn read(sent: &str) -> Option<Message> {
    let mut lines: Vec<_> = sent.lines().collect();
    let ran = Ran::read(lines.pop()?)?;
    Some((lines.into_iter().map(|line| line.parse().ok()).collect::<Option<_>>()?, ran))
}

fn send(arguments: &Arguments, sent: &[Message], to: &mut dyn Write) -> Result<()> {
    writeln!(to, "rank  {:>10}  attempts  out of memory  again for others  images in a piece", "budget")?;
    for (rank, (_, ran)) in sent.iter().enumerate() {
        let Ran { attempts, out_of_memory, elsewhere, size } = ran;
        let budget = arguments.budget(rank).to_string();
        writeln!(
            to,
            "{rank:<4}  {budget:>10}  {attempts:>8}  {out_of_memory:>13}  {elsewhere:>16}  {size:>17}"
        )?;
    }
    Ok(())
}

fn compare_with_one(arguments: &Arguments, losses: &[f64], weights: &Path, to: &mut dyn Write) -> Result<()> {
    let alone = Ranks::connect("localhost:1", 0, 1)?;
    let mut learning = Learning::new(arguments)?;
    writeln!(to, "\nstep  loss together  loss of one  difference")?;
    let mut worst: f64 = 0.0;
    for (step, together) in losses.iter().enumerate() {
        let (loss, _) = learning.step(step, &alone)?;
        let difference = (together - loss).abs();
        worst = worst.max(difference);
        writeln!(to, "{:<4}  {together:>13.6}  {loss:>11.6}  {difference:>10.1e}", step + 1)?;
    }
    let saved = tch::Tensor::read_safetensors(weights)?;
    for (name, variable) in learning.variables.variables() {
        let (_, together) = saved.iter().find(|(saved, _)| *saved == name).ok_or("a weight is missing")?;
        worst = worst.max((together - variable).abs().max().double_value(&[]));
    }
    writeln!(to, "\nlosses and weights differ by at most {worst:.1e}")?;
    // This example is a test as well, so it checks its own results.
    if worst <= 1e-12 { Ok(()) } else { Err(format!("difference {worst:e}: must be at most 1e-12").into()) }
}
