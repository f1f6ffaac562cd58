//! Arguments of the command line.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{ArgGroup, Parser, ValueEnum};
use tch::Device;
use toma::policy::Policy;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};

const EXAMPLES: &str = "\
Examples:
  cargo xtask run embed -- --input notes.txt --output notes.npy
  cargo xtask run embed -- --input notes.txt --budget 300MB --query \"invoices that are not paid\"
  cat *.md | cargo xtask run embed -- --input - --output all.safetensors --policy bisect
  cargo xtask run embed -- --input notes.txt --budget 96MB --compare-policies --svg sizes.svg";

/// Turns each line of a text into a vector of 384 numbers, such that lines of similar meaning get
/// similar vectors; in batches as large as memory allows.
#[derive(Debug, Parser)]
#[command(name = "embed", after_help = EXAMPLES, max_term_width = 100)]
#[command(group = ArgGroup::new("purpose").args(["output", "query", "compare", "compare_policies", "svg", "check"]).multiple(true).required(true))]
pub(crate) struct Arguments {
    /// Text with one item per line; `-` is standard input
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    pub(crate) input: Option<PathBuf>,

    /// Read at most this number of lines of the input [default: all]
    #[arg(long, value_name = "N", requires = "input")]
    pub(crate) lines: Option<NonZeroUsize>,

    /// Output file for the vectors, one row per line: its name ends in .npy or .safetensors
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Bytes that tensors may take, the model's included, such as 300MB, 1.5GiB or 300000000
    /// [default: half of the free memory; on a GPU all of it, and nothing else is possible]
    #[arg(long, value_name = "BYTES")]
    pub(crate) budget: Option<ByteSize>,

    /// Like the budget, but including the model: its weights stay in their file until an operator uses them
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["budget", "check"])]
    pub(crate) offload: Option<ByteSize>,

    /// Before the work and after it, evict everything from the device, as for another program, and fetch it
    #[arg(long, requires = "offload", conflicts_with = "check")]
    pub(crate) park: bool,

    /// Policy that chooses the next batch size
    #[arg(long, value_name = "POLICY", default_value = "halve")]
    pub(crate) policy: PolicyName,

    /// Largest batch, in tokens: texts times the length of the longest [default: 1024, on a GPU 65536]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<NonZeroUsize>,

    /// Print the lines whose meaning is nearest to this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: Option<String>,

    /// Number of lines to print
    #[arg(long, value_name = "K", default_value = "5", requires = "query")]
    pub(crate) top: NonZeroUsize,

    /// Also run with one fixed batch size that is safe for the longest text, and compare the speed
    #[arg(long)]
    pub(crate) compare: bool,

    /// Also run with each of these policies, and compare the results
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "halve,adaptive,throughput"
    )]
    pub(crate) compare_policies: Vec<PolicyName>,

    /// Draw the batch sizes over time into this file, and the points where memory ran out
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// Compare with the published implementation, and adaptive with fixed batches; fail on a difference
    #[arg(long)]
    pub(crate) check: bool,

    /// Device to compute on: cpu, or a GPU such as cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    pub(crate) device: Device,

    /// Folder with config.json, tokenizer.json and model.safetensors; set by `cargo xtask run embed`
    #[arg(long, value_name = "DIR", env = "MINILM_DIR", hide_env_values = true)]
    pub(crate) model: Option<PathBuf>,
}

impl Arguments {
    /// The default is small on a CPU, which gains nothing from batches beyond its caches; a GPU is idle in small ones.
    pub(crate) fn batch(&self) -> usize {
        self.batch.map_or(if self.device == Device::Cpu { 1024 } else { 65536 }, NonZeroUsize::get)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Half of the size that failed
    Halve,
    /// Three quarters of the size that failed
    Decay,
    /// Halves, then looks for the largest size that works
    Bisect,
    /// Needs small batches, and predicts the largest size that works
    Adaptive,
    /// Smallest size that is as fast as any other
    Throughput,
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no policy is hidden").get_name())
    }
}

impl PolicyName {
    pub(crate) fn policy(self) -> Box<dyn Policy> {
        match self {
            Self::Halve => Box::new(Halve),
            Self::Decay => Box::new(Decay::new(0.75)),
            Self::Bisect => Box::new(Bisect::default()),
            Self::Adaptive => Box::new(Adaptive::default()),
            Self::Throughput => Box::new(Throughput::default()),
        }
    }
}

fn device(text: &str) -> Result<Device, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(Device::Cpu),
        None if text == "cuda" => Ok(Device::Cuda(0)),
        Some(("cuda", index)) => {
            index.parse().map(Device::Cuda).map_err(|error| format!("index {index:?}: {error}"))
        }
        _ => Err("expected cpu, cuda or cuda:N".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(format!("embed {line}").split_whitespace())
    }

    #[test]
    fn the_description_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn bytes_are_read_as_people_write_them() {
        let read = |text: &str| parse(&format!("--check --budget {text}")).map(|arguments| arguments.budget);
        for (text, right) in
            [("300000000", 300_000_000), ("300MB", 300_000_000), ("1.5GiB", 3 << 29), ("7b", 7)]
        {
            assert_eq!(read(text).unwrap(), Some(ByteSize(right)), "{text}");
        }
        for text in ["MB", "12XB", "1..5GB", ".", "nan"] {
            assert!(read(text).is_err(), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn devices_are_named_as_in_python() {
        assert_eq!(device("cpu"), Ok(Device::Cpu));
        assert_eq!(device("cuda"), Ok(Device::Cuda(0)));
        assert_eq!(device("cuda:3"), Ok(Device::Cuda(3)));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0"] {
            assert!(device(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_line_that_asks_for_nothing_is_refused() {
        for line in ["", "--input a.txt", "--output a.npy", "--query cake", "--input a.txt --top 3 --compare"]
        {
            assert!(parse(line).is_err(), "{line:?}");
        }
        for line in ["--check", "--input - --compare", "--input a.txt --output a.npy --query cake --top 3"] {
            assert!(parse(line).is_ok(), "{line:?}: {:?}", parse(line).err());
        }
        assert!(parse("--check --batch 0").is_err());
        assert!(parse("--check --lines 3").is_err());
        for line in
            ["--offload 64MB --check", "--input - --compare --offload 64MB --budget 64MB", "--check --park"]
        {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn policies_are_compared_as_they_are_listed() {
        use PolicyName::{Adaptive, Bisect, Halve, Throughput};
        let listed =
            |line| parse(&format!("--input a.txt {line}")).map(|arguments| arguments.compare_policies);
        assert_eq!(listed("--compare-policies").unwrap(), [Halve, Adaptive, Throughput]);
        assert_eq!(listed("--compare-policies=bisect,halve").unwrap(), [Bisect, Halve]);
        assert_eq!(listed("--svg a.svg").unwrap(), []);
        assert!(listed("--compare-policies=best").is_err());
    }

    #[test]
    fn every_policy_shrinks() {
        for name in PolicyName::value_variants() {
            let next = name.policy().shrink(&toma::policy::Evidence::new(100));
            assert!((1..100).contains(&next), "{name:?}: {next}");
        }
    }
}
