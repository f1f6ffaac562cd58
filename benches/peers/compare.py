"""Runs the same loops through toma, toma for Python and accelerate, and prints a table.

    eval "$(cargo xtask torch)"
    python3 benches/peers/compare.py [ROUNDS]

The first run installs the peers into `target/peers`: 20 MB, with the checksums in `requirements.txt`. PyTorch is the
one that libtorch belongs to. Its libraries for GPUs are empty stand-ins, which are never called.

Each peer is a process of its own, and one case is measured at a time. Objects that one library leaves in memory make
the garbage collections of another slower, and a machine that grows busier slows all of them alike. A peer first prints
its cases. Then each line it reads is the number of a case to measure, and each line it prints is the result. A peer in
Python is this script again:

    compare.py --peer PEER FOLDER

PEER is `loop` (no library at all), `toma` or `accelerate`; FOLDER holds PyTorch and its imports.
"""

import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INSTALLED = ROOT / "target/peers"
BENCH = ["cargo", "bench", "-p", "toma-torch", "--bench", "peers", "--no-run", "--message-format=json"]

# With a visible GPU, PyTorch would call the stand-ins.
ENVIRONMENT = ["env", f"PYTHONPATH={INSTALLED}", f"LD_LIBRARY_PATH={INSTALLED}", "CUDA_VISIBLE_DEVICES="]

# The title of each column, with the name of its figure and its format.
COLUMNS = {
    "call, µs": ("call_us", ",.3f"),
    "chunk, µs": ("chunk_us", ",.3f"),
    "OOMs, cold": ("cold_ooms", ".0f"),
    "kept, %": ("cold_kept_percent", ".0f"),
    "cold": ("cold_ratio", ".2f"),
    "warm": ("warm_ratio", ".2f"),
    "cold, ms": ("cold_ms", ".0f"),
    "warm, ms": ("warm_ms", ".0f"),
    "OOMs, warm": ("warm_ooms", ".0f"),
}

WORLDS = json.loads((HERE / "worlds.json").read_text())

# The world without work, in which a call costs only what the loop itself takes.
OVERHEAD = {"name": "overhead"}

# Seconds; shorter times are measured with more calls.
ENOUGH = 0.02

# Rows and columns of the weights.
WIDTH = 512


def main(rounds=4):
    folder = (Path(os.environ["LIBTORCH"]) / "lib/libtorch_cpu.so").resolve().parents[2]
    install(folder)
    script, program, cases = [*ENVIRONMENT, sys.executable, "-B", __file__, "--peer"], rust_program(), []
    for python, rust in (("loop", "loop"), ("toma", "toma"), ("accelerate", "counted")):
        cases += start([*script, python, folder]) + start([program, rust])
    measure(cases, int(rounds))
    print(table(cases))


def install(folder):
    """Installs the peers without dependencies, most of which are for GPUs, and stand-ins for libraries of GPUs."""
    if not (INSTALLED / "done").exists():
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--upgrade", "--target", INSTALLED]
        pip = [sys.executable, "-m", "pip", "install", *options, "-r", HERE / "requirements.txt"]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        (INSTALLED / "done").touch()
    ldd = [*ENVIRONMENT, "ldd", folder / "torch/lib/libtorch_python.so"]
    libraries = subprocess.run(ldd, check=True, capture_output=True, text=True).stdout
    for name in set(re.findall(r"^\s*(\S+) => not found", libraries, re.MULTILINE)):
        stand_in = ["-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c++", os.devnull, "-o", INSTALLED / name]
        subprocess.run(["c++", *stand_in], check=True)


def rust_program():
    output = subprocess.run(BENCH, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    messages = map(json.loads, output.splitlines())
    return next(message["executable"] for message in messages if message.get("target", {}).get("name") == "peers")


def start(command):
    """Starts a peer, and returns its cases with all that is needed to measure them."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    hello = answer(process)
    cases = enumerate(hello.pop("cases"))
    return [{**hello, **case, "process": process, "number": number, "samples": {}} for number, case in cases]


def answer(process):
    """Reads a line; a peer that prints none has failed, and has printed the reason."""
    return json.loads(process.stdout.readline() or sys.exit(f"{process.args}: ended without an answer, see above"))


def measure(cases, rounds):
    """Adds a sample to each case in each round. Every other round runs backwards, because machines slow down."""
    order = sorted(cases, key=lambda case: case["number"])
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for case in order:
            print(case["number"], file=case["process"].stdin, flush=True)
            for name, figure in answer(case["process"]).items():
                case["samples"].setdefault(name, []).append(figure)
        order.reverse()


def table(cases):
    """Returns a row per variant, with one language after the other."""
    rows = {}
    for case in sorted(cases, key=lambda case: case["language"]):
        peer = f"{case['peer']} {case['version']}".strip()
        names = [f"`{case[name]}`" if case[name] else "" for name in ("form", "cache", "policy")]
        rows.setdefault((f"{peer} ({case['language']})", *names), []).append(figures(case, cases))
    lines = [["", "form", "cache", "policy", *COLUMNS], ["---"] * (4 + len(COLUMNS))]
    for names, worlds in rows.items():
        cells = [" / ".join(f"{of[name]:{form}}" for of in worlds if name in of) for name, form in COLUMNS.values()]
        lines.append([*names, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figures(case, cases):
    """Returns medians, of times compared round by round with the hand-written loop in the same language."""
    loops = [other for other in cases if other["peer"] == "loop" and other["language"] == case["language"]]
    loops = [loop for loop in loops if loop["group"] == case["group"]]
    samples = beyond(case, loops) if case["group"] == "overhead" else relative(case["samples"], loops)
    return {name: statistics.median(values) for name, values in samples.items()}


def beyond(case, loops):
    """Returns the samples less those of the loop of the same form; a form of another name is `batch`."""
    if case["peer"] == "loop":
        return case["samples"]
    forms = {loop["form"]: loop["samples"] for loop in loops}
    base = forms.get(case["form"]) or forms["batch"]
    return {name: [ours - its for ours, its in zip(values, base[name])] for name, values in case["samples"].items()}


def relative(samples, loops):
    """Adds times over those of the best fixed size, whose cold and warm run are the same work: both tell its time."""
    times = [zip(loop["samples"]["cold_ms"], loop["samples"]["warm_ms"]) for loop in loops]
    best = min(([(cold + warm) / 2 for cold, warm in rounds] for rounds in times), key=statistics.median)
    ratios = {f"{run}_ratio": [ms / base for ms, base in zip(samples[f"{run}_ms"], best)] for run in ("cold", "warm")}
    return samples | ratios


def run_peer(peer, folder):
    """Measures the cases of one peer, as another process asks for them."""
    # The stand-ins have no functions, which are looked up only when they are called.
    sys.setdlopenflags(os.RTLD_LAZY)
    sys.path.append(folder)
    import torch

    torch.set_num_threads(1)
    variants = {"loop": loops, "toma": with_toma, "accelerate": with_accelerate}[peer]()
    version = "" if peer == "loop" else importlib.metadata.version(peer)
    hello = {"language": "Python", "peer": peer, "version": version}
    # The answers have standard output for themselves.
    answers, sys.stdout = sys.stdout, sys.stderr
    serve(hello, list(cases_of(variants, Layer())), sys.stdin, answers)


def serve(hello, cases, questions, answers):
    """Answers one question after the other until there are no more."""
    print(json.dumps({**hello, "cases": [name for name, _ in cases]}), file=answers, flush=True)
    for question in questions:
        _, measured = cases[int(question)]
        print(json.dumps(measured()), file=answers, flush=True)


def cases_of(variants, layer):
    """Yields the name of each case, and the function that measures it."""
    for (form, cache, policy), make, worlds in variants:
        for world in worlds:
            name = {"form": form, "cache": cache, "policy": policy, "group": world["name"]}
            yield name, partial(overhead, make, form) if world is OVERHEAD else partial(whole_runs, make, layer, world)


def loops():
    """Yields hand-written loops, as one can write them where the limit is known.

    A variant is its form, cache and policy, a function that makes a call of some work, and the worlds to measure it in.
    The cost of a loop does not depend on its size, and its time does not depend on its form.
    """
    yield ("batch", "", ""), lambda work: lambda: work.whole(work.fixed(1)), [OVERHEAD]
    yield ("range", "", ""), partial(in_range, 1), [OVERHEAD]
    yield ("chunked", "", ""), in_chunks, [OVERHEAD]
    for share in (1, 2, 4):
        yield ("range", "", f"1/{share}"), partial(in_range, share), WORLDS


def in_range(share, work):
    def call():
        size, rows, start = work.fixed(share), work.rows, 0
        # A `range` would add more than half to the cost of a call.
        while start < rows:
            end = min(start + size, rows)
            work.piece(start, end)
            start = end

    return call


def in_chunks(work):
    def call():
        size, rows, start, data = work.fixed(1), work.rows, 0, work.data
        while start < rows:
            end = min(start + size, rows)
            work.chunk(data.narrow(0, start, end - start), start, end)
            start = end

    return call


def with_toma():
    """Yields the decorators of toma with each cache."""
    from toma import GlobalBatchsizeCache, NoBatchsizeCache, StacktraceMemoryBatchsizeCache

    for cache in (NoBatchsizeCache, GlobalBatchsizeCache, StacktraceMemoryBatchsizeCache):
        for form in ("batch", "range", "chunked"):
            # Each chunk takes a garbage collection, and `chunked` is `range` with a view: one cache is enough.
            worlds = WORLDS if form != "chunked" or cache is StacktraceMemoryBatchsizeCache else []
            yield (form, cache.__name__, "half of it"), partial(decorated, form, cache), [OVERHEAD, *worlds]


def decorated(form, cache, work):
    from toma import toma

    if form == "batch":
        return toma.batch(initial_batchsize=work.initial, cache_type=cache)(work.whole)
    if form == "range":
        body = toma.range(initial_step=work.initial, cache_type=cache)(work.piece)
        return lambda: body(0, work.rows)
    body = toma.chunked(initial_step=work.initial, cache_type=cache)(work.chunk)
    return lambda: body(work.data)


def with_accelerate():
    """Yields the decorator of accelerate, which remembers a size in its closure."""
    from accelerate.utils import find_executable_batch_size

    def make(work):
        return find_executable_batch_size(work.whole, starting_batch_size=work.initial)

    yield ("find_executable_batch_size", "", "0.9 of it"), make, [OVERHEAD, *WORLDS]


def overhead(make, form):
    """Returns microseconds per call with one chunk and per further chunk, after a failure that a cache learns from."""
    work = Empty()
    call = make(work)
    call()
    work.limit, calls = float("inf"), 1
    work.resize(1)
    while (seconds := timed(call, calls)) < ENOUGH:
        calls *= 2
    one = seconds / calls
    results = {"call_us": one * 1e6}
    if form in ("range", "chunked"):
        work.resize(8)
        while (seconds := timed(call)) < ENOUGH:
            work.resize(work.rows * 2)
        results["chunk_us"] = (seconds - one) / (work.chunks - 1) * 1e6
    return results


def timed(call, calls=1):
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - begin


def whole_runs(make, layer, world):
    """Returns the figures of a cold run, and of one that starts with the size that the first has left."""
    work, results = Work(layer, world), {}
    call = make(work)
    for run in ("cold", "warm"):
        work.begin()
        results[f"{run}_ms"] = timed(call) * 1e3
        work.check()
        results[f"{run}_ooms"] = work.out_of_memory
        # The size in force at the end is that of the last piece but one, because the last is a rest.
        results[f"{run}_kept_percent"] = work.succeeded[-2:][0] / work.limit * 100
    return results


class Empty:
    """Rows with nothing to do. While there is a limit, more than one does not fit."""

    def __init__(self):
        self.initial, self.limit = 2, 1
        self.resize(2)

    def resize(self, rows):
        import torch

        self.rows, self.chunks, self.data = rows, 0, torch.zeros(rows, 1)

    def fixed(self, share):
        return 1

    def whole(self, batch_size):
        self.piece(0, batch_size)

    def chunk(self, chunk, start, end):
        self.piece(start, end)

    def piece(self, start, end):
        self.chunks += 1
        if end - start > self.limit:
            run_out_of_memory()


class Work:
    """All rows of a world through the layer."""

    def __init__(self, layer, world):
        self.layer, self.world, self.rows, self.initial = layer, world, world["rows"], world["initial"]
        self.data, self.out = layer.input[: self.rows], layer.input.new_zeros(self.rows)

    def begin(self):
        self.limit, self.halves = self.world["limit"], self.world["halves"]
        self.succeeded, self.out_of_memory = [], 0
        self.out.zero_()

    def fixed(self, share):
        """Returns a size that fits throughout."""
        return self.world["limit"] // (2 if self.world["halves"] else 1) // share

    def whole(self, batch_size):
        for start in range(0, self.rows, batch_size):
            self.piece(start, min(start + batch_size, self.rows))

    def piece(self, start, end):
        self.chunk(self.data.narrow(0, start, end - start), start, end)

    def chunk(self, chunk, start, end):
        size = end - start
        # A body gets so far before it runs out of memory.
        hidden = self.layer.first_half(chunk.narrow(0, 0, min(size, self.limit)))
        if size > self.limit:
            self.out_of_memory += 1
            run_out_of_memory()
        self.out.narrow(0, start, size).copy_(self.layer.second_half(hidden))
        self.succeeded.append(size)
        if self.halves and end * 2 >= self.rows:
            # Lost for good: a run that begins again has no more memory than that.
            self.limit, self.halves = self.limit // 2, False

    def check(self):
        difference = (self.out - self.layer.expected[: self.rows]).abs().max().item()
        # Sizes change the order of additions, and a row left out is off by far more.
        assert difference < 1e-2, f"{self.world['name']}: results are off by {difference}"


class Layer:
    """Rows and the weights that they are multiplied with. Weights are stored packed, and unpacked in each attempt."""

    def __init__(self):
        import torch

        rows = max(world["rows"] for world in WORLDS)
        self.input = torch.arange(rows * WIDTH, dtype=torch.float32).sin().reshape(rows, WIDTH)
        waves = torch.arange(WIDTH * WIDTH, dtype=torch.float32).mul(0.37).sin().mul(127)
        self.packed = waves.to(torch.int8).reshape(WIDTH, WIDTH)
        self.last = torch.arange(WIDTH * 64, dtype=torch.float32).mul(0.11).cos().reshape(WIDTH, 64)
        self.expected = self.second_half(self.first_half(self.input))

    def first_half(self, rows):
        """Computes the part before the allocation that may be too large."""
        return rows.matmul(self.packed.float().mul_(1 / 127)).relu_()

    def second_half(self, hidden):
        return hidden.matmul(self.last).sum(1)


def run_out_of_memory():
    """Fails with libtorch's own error, because no machine has as many bytes."""
    import torch

    torch.empty(1 << 50, dtype=torch.uint8)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        run_peer(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
