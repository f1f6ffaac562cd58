"""Counts the instructions of warm calls in a crate of its own, as a user builds it: `--release`, no profile of ours.

    python3 benches/own/compare.py             this checkout
    python3 benches/own/compare.py COMMIT      beside an earlier commit

Inlining across crates decides what a call costs, and benchmarks of this workspace are compiled with its profiles. Counts
come from callgrind and do not depend on how busy the machine is. Needs cargo, git and valgrind.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "target" / "own"
CASES = ["no-cache", "global-cache", "global-cache-settled", "1000-chunks"]

MANIFEST = """[package]
name = "own"
version = "0.0.0"
edition = "2024"

[dependencies]
toma = {{ path = "{path}", features = ["testing"] }}

[workspace]
"""

PROGRAM = """use std::hint::black_box;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, execute};

#[inline(never)]
fn body(start: usize, end: usize) {
    black_box(start ^ end);
}

fn settled() {
    let done = execute::with::<GlobalCache>().batch(black_box(8), |size| {
        body(0, size);
        if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    black_box(done.is_ok());
}

fn main() {
    let [case, times]: [String; 2] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    settled();
    for _ in 0..times.parse::<u32>().unwrap() {
        match &*case {
            "no-cache" => execute::with::<NoCache>().range(0..black_box(8), black_box(8), body),
            "global-cache" => execute::with::<GlobalCache>().range(0..black_box(8), black_box(8), body),
            "global-cache-settled" => settled(),
            "1000-chunks" => execute::with::<NoCache>().range(0..black_box(1000), black_box(1), body),
            other => panic!("{other}: no such case"),
        }
    }
}
"""


def checkout(commit):
    """Returns a folder with the files of a commit."""
    folder = OUT / commit / "toma"
    if not folder.exists():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def build(toma, name):
    folder = OUT / name / "own"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(MANIFEST.format(path=toma))
    (folder / "src" / "main.rs").write_text(PROGRAM)
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=folder, check=True)
    return folder / "target" / "release" / "own"


def instructions(program, case, times):
    counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    counted = subprocess.run([*counter, program, case, str(times)], check=True, text=True, capture_output=True)
    return int(re.search(r"Collected : (\d+)", counted.stderr).group(1))


def per_call(program, case, times=1000):
    """The instructions of twice as many calls less those of so many, so that start and end cancel out."""
    return (instructions(program, case, 2 * times) - instructions(program, case, times)) / times


def main():
    programs = {"here": build(ROOT, "here")}
    programs |= {commit: build(checkout(commit), commit) for commit in sys.argv[1:]}
    print(f"{'instructions per call':<24}" + "".join(f"{name:>12}" for name in programs))
    for case in CASES:
        print(f"{case:<24}" + "".join(f"{per_call(program, case):>12.1f}" for program in programs.values()))


if __name__ == "__main__":
    main()
