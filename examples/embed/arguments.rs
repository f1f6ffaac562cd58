//! What can be said on the command line.

use std::fmt;
use std::num::{IntErrorKind, NonZeroUsize};
use std::path::PathBuf;

use clap::{ArgGroup, Parser, ValueEnum};
use tch::Device;
use toma::policy::{Adaptive, Bisect, Decay, Halve, Policy, Throughput};

const EXAMPLES: &str = "\
Examples:
  cargo xtask run embed -- --input notes.txt --output notes.npy
  cargo xtask run embed -- --input notes.txt --budget 300MB --query \"who owes me money?\"
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

    /// Where the vectors go, one row per line: a file that ends in .npy or .safetensors
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Bytes that tensors may take, the model's included, such as 300MB, 1.5GiB or 300000000
    /// [default: half of the memory that is free; on a GPU all of it, and nothing else is possible]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) budget: Option<u64>,

    /// How the next batch size is chosen
    #[arg(long, value_name = "POLICY", default_value = "halve")]
    pub(crate) policy: PolicyName,

    /// Largest batch: the number of texts that is tried first [default: 64, on a GPU 1024]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<NonZeroUsize>,

    /// Print the lines whose meaning is nearest to this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) query: Option<String>,

    /// How many of them
    #[arg(long, value_name = "K", default_value = "5", requires = "query")]
    pub(crate) top: NonZeroUsize,

    /// Also work with one fixed batch size that is safe for the longest text, and compare the speed
    #[arg(long)]
    pub(crate) compare: bool,

    /// Also work with each of these policies, and compare what they come to
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "halve,adaptive,throughput",
        conflicts_with = "compare"
    )]
    pub(crate) compare_policies: Vec<PolicyName>,

    /// Draw the batch sizes over time into this file, and where memory ran out
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// Compare with the published implementation, and adaptive with fixed batches; fail when they differ
    #[arg(long)]
    pub(crate) check: bool,

    /// Where to compute: cpu, or a GPU such as cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    pub(crate) device: Device,

    /// Folder with config.json, tokenizer.json and model.safetensors [default: where `MINILM_DIR` says]
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
}

impl Arguments {
    /// A CPU gains nothing from batches that its caches do not hold; a GPU is idle in small ones.
    pub(crate) fn batch(&self) -> usize {
        self.batch.map_or(if self.device == Device::Cpu { 64 } else { 1024 }, NonZeroUsize::get)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Half of the size that failed
    Halve,
    /// Three quarters of it
    Decay,
    /// Halves, then looks for the largest size that works
    Bisect,
    /// Needs small batches, and predicts the largest size that works
    Adaptive,
    /// The smallest size that is as fast as any
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

/// Reads `300MB`, `1.5 GiB`, `300000000`.
fn bytes(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let expected = || "expected bytes, such as 300000000, 300MB or 1.5GiB".to_owned();
    let factor = factor(unit.trim()).ok_or_else(expected)?;
    let too_many = || "more than 16 EiB".to_owned();
    // Whole numbers stay exact.
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor).ok_or_else(too_many),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_many()),
        Err(_) => fraction(number.parse().map_err(|_| expected())?, factor).ok_or_else(too_many),
    }
}

/// `None` where a cast would saturate.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value has no sign and fits, and who writes 1.5GiB does not count bytes"
)]
fn fraction(value: f64, factor: u64) -> Option<u64> {
    let bytes = value * factor as f64;
    (bytes < 2_f64.powi(64)).then_some(bytes as u64)
}

fn factor(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    })
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
        let read = ["0", "300000000", "300MB", "300mb", "1GiB", "1.5GiB", "2 KiB", "7B"].map(bytes);
        let right = [0, 300_000_000, 300_000_000, 300_000_000, 1 << 30, 3 << 29, 2048, 7];
        assert_eq!(read, right.map(Ok));
        // An f64 would lose the last byte.
        assert_eq!(bytes("9007199254740993"), Ok(9_007_199_254_740_993));
    }

    #[test]
    fn what_means_no_bytes_is_refused() {
        for text in ["", "MB", "-5", "12XB", "1..5GB", ".", "1e9", "300 M B", "nan"] {
            assert!(bytes(text).is_err(), "{text:?}: {:?}", bytes(text));
        }
    }

    #[test]
    fn more_bytes_than_can_be_counted_are_refused() {
        let many = "9".repeat(400) + ".5";
        for text in
            ["18446744073709551616", "99999999999999999999", "99999999999GiB", "17179869184.0GiB", &many]
        {
            assert_eq!(bytes(text), Err("more than 16 EiB".to_owned()), "{text}");
        }
        assert_eq!(bytes("18446744073709551615"), Ok(u64::MAX));
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
    }

    #[test]
    fn policies_are_compared_as_they_are_listed() {
        use PolicyName::{Adaptive, Bisect, Halve, Throughput};
        let listed =
            |line| parse(&format!("--input a.txt {line}")).map(|arguments| arguments.compare_policies);
        assert_eq!(listed("--compare-policies").unwrap(), [Halve, Adaptive, Throughput]);
        assert_eq!(listed("--compare-policies=bisect,halve").unwrap(), [Bisect, Halve]);
        assert_eq!(listed("--svg a.svg").unwrap(), []);
        assert!(
            listed("--compare-policies=best").is_err() && listed("--compare --compare-policies").is_err()
        );
    }

    #[test]
    fn every_policy_shrinks() {
        for name in PolicyName::value_variants() {
            let next = name.policy().shrink(&toma::policy::Evidence::new(100));
            assert!((1..100).contains(&next), "{name:?}: {next}");
        }
    }
}
