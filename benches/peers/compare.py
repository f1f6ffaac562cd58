"""Runs the same loops through toma, toma for Python and accelerate, and prints a table.

    eval "$(cargo xtask torch)"
    python3 benches/peers/compare.py [ROUNDS]

The first run installs the peers into `target/peers`: 20 MB, with the checksums in `requirements.txt`. PyTorch is the one
that libtorch belongs to. Its libraries for GPUs are empty stand-ins, which are bound when they are called and never are.

Each peer is a process of its own, and one case is measured at a time. What one library leaves in memory makes the
garbage collections of another slower, and a machine that grows busier slows all of them alike.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INSTALLED = ROOT / "target/peers"
BENCH = ["cargo", "bench", "-p", "toma-torch", "--bench", "peers", "--no-run", "--message-format=json"]


def main(rounds=4):
    install()
    program = rust_program()
    commands = [python("loop"), [program, "loop"], python("toma"), [program, "toma"], python("accelerate"), [program, "counted"]]
    peers = measure([Worker(command) for command in commands], int(rounds))
    worlds = [world["name"] for world in json.loads((HERE / "worlds.json").read_text())]
    print(table(sorted(rows(peers, worlds), key=lambda row: row["language"])))


def install():
    """The peers without their dependencies, most of which are for GPUs, and the libraries that PyTorch misses."""
    if not (INSTALLED / "done").exists():
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--upgrade"]
        subprocess.run([*pip, "--target", INSTALLED, "-r", HERE / "requirements.txt"], check=True, stdout=sys.stderr)
        (INSTALLED / "done").touch()
    ldd = ["ldd", torch_packages() / "torch/lib/libtorch_python.so"]
    for name in missing(subprocess.run(ldd, check=True, capture_output=True, text=True, env=without_libraries()).stdout):
        stand_in = ["c++", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c++", os.devnull, "-o", INSTALLED / name]
        subprocess.run(stand_in, check=True)


def missing(ldd):
    """The libraries that the loader did not find."""
    return sorted(set(re.findall(r"^\s*(\S+) => not found", ldd, re.MULTILINE)))


def without_libraries():
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def torch_packages():
    """The folder of packages with the PyTorch that libtorch belongs to."""
    return (pathlib.Path(os.environ["LIBTORCH"]) / "lib/libtorch_cpu.so").resolve().parents[2]


def python(peer):
    # Where a GPU was seen, the stand-ins would be called.
    variables = [f"PYTHONPATH={INSTALLED}", f"LD_LIBRARY_PATH={INSTALLED}", "CUDA_VISIBLE_DEVICES="]
    return ["env", *variables, sys.executable, "-B", HERE / "peers.py", peer, torch_packages()]


def rust_program():
    messages = subprocess.run(BENCH, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.splitlines()
    messages = [json.loads(line) for line in messages]
    return next(message["executable"] for message in messages if message.get("target", {}).get("name") == "peers")


class Worker:
    """A process that greets with its cases, and answers each number of a case with figures."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args}: ended without an answer, see above")
        return json.loads(line)

    def ask(self, case):
        print(case, file=self.process.stdin, flush=True)
        return self.answer()


def measure(workers, rounds):
    """The greetings, whose cases have got `samples`. Every other round runs backwards, because machines slow down."""
    order = [(case, worker) for worker in workers for case in range(len(worker.hello["cases"]))]
    order.sort(key=lambda pair: pair[0])
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for case, worker in order if number % 2 == 0 else order[::-1]:
            samples = worker.hello["cases"][case].setdefault("samples", {})
            for name, figure in worker.ask(case).items():
                samples.setdefault(name, []).append(figure)
    return [worker.hello for worker in workers]


def rows(peers, worlds):
    """A row per variant, compared with the hand-written loop in the same language, round by round."""
    for peer in peers:
        loop = next(other for other in peers if other["peer"] == "loop" and other["language"] == peer["language"])
        best = [fastest(loop, world) for world in worlds]
        for variant in dict.fromkeys(variant_of(case) for case in peer["cases"]):
            groups = cases_of(peer, variant)
            form = variant[0] if variant[0] in ("range", "chunked") else "batch"
            base = {} if peer is loop else cases_of(loop, (form, "", ""))["overhead"]
            row = {"language": peer["language"], "peer": f"{peer['peer']} {peer['version']}".strip(), "variant": variant}
            for name, figures in groups.pop("overhead", {}).items():
                beyond = base.get(name, [0] * len(figures))
                row[name] = statistics.median(ours - base for ours, base in zip(figures, beyond))
            row["runs"] = [run(groups[world], ms) for world, ms in zip(worlds, best) if world in groups]
            yield row


def variant_of(case):
    return case["form"], case["cache"], case["policy"]


def cases_of(peer, variant):
    return {case["group"]: case["samples"] for case in peer["cases"] if variant_of(case) == variant}


def fastest(loop, world):
    """Milliseconds of the best fixed size. Its cold and its warm run are the same work: both tell its time."""
    timed = [case["samples"] for case in loop["cases"] if case["group"] == world]
    return min(([(a + b) / 2 for a, b in zip(of["cold_ms"], of["warm_ms"])] for of in timed), key=statistics.median)


def run(samples, best):
    """Medians, and times over those of the best fixed size in the same round."""
    figures = {name: statistics.median(all) for name, all in samples.items()}
    for half in ("cold", "warm"):
        ratios = [ours / base for ours, base in zip(samples[f"{half}_ms"], best)]
        figures[f"{half}_ratio"] = statistics.median(ratios)
    return figures


OVERHEADS = [("call, µs", "call_us"), ("chunk, µs", "chunk_us")]
RUNS = [
    ("OOMs, cold", "cold_ooms", 0),
    ("kept, %", "cold_kept_percent", 0),
    ("cold", "cold_ratio", 2),
    ("warm", "warm_ratio", 2),
    ("cold, ms", "cold_ms", 0),
    ("warm, ms", "warm_ms", 0),
    ("OOMs, warm", "warm_ooms", 0),
]


def table(rows):
    titles = ["", "form", "cache", "policy", *(title for title, *_ in OVERHEADS + RUNS)]
    lines = [titles, ["---"] * len(titles)]
    for row in rows:
        overheads = [f"{row[name]:,.3f}" if name in row else "" for _, name in OVERHEADS]
        runs = [" / ".join(f"{run[name]:.{digits}f}" for run in row["runs"]) for _, name, digits in RUNS]
        names = [f"`{word}`" if word else "" for word in row["variant"]]
        lines.append([f"{row['peer']} ({row['language']})", *names, *overheads, *runs])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
