"""Runs the workloads of this folder through one peer, as `compare.py` asks for them.

    peers.py PEER FOLDER

PEER is `loop` (no library at all), `toma` or `accelerate`; FOLDER holds the packages with PyTorch. The
first line printed says which library this is and which cases there are; then each line read is the number of a
case to measure, and each line printed is what that came to. One process per peer: what a library
leaves in memory makes the garbage collections of another slower.
"""

import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent

# More than any machine has: libtorch refuses it with its own error.
TOO_MANY_BYTES = 1 << 50

# A time shorter than this is taken of more calls, in seconds.
ENOUGH = 0.02

# Rows and columns of the weights.
WIDTH = 512


def main():
    peer, folder = sys.argv[1:]
    # CUDA's libraries may be stand-ins without functions: bound when they are called, which they never are.
    sys.setdlopenflags(os.RTLD_LAZY)
    sys.path.append(folder)
    import torch

    torch.set_num_threads(1)
    variants = {"loop": loops, "toma": toma_variants, "accelerate": accelerate_variants}[peer]()
    layer = Layer(torch)
    cases = [case for variant in variants for case in cases_of(variant, layer)]
    # The answers have standard output for themselves.
    answers, sys.stdout = sys.stdout, sys.stderr
    serve(hello(peer, torch, cases), cases, sys.stdin, answers)


def serve(hello, cases, questions, answers):
    """Answers one question after the other until there are no more."""
    print(json.dumps(hello), file=answers, flush=True)
    for question in questions:
        print(json.dumps(cases[int(question)].measure()), file=answers, flush=True)


def hello(peer, torch, cases):
    version = "" if peer == "loop" else importlib.metadata.version(peer)
    about = f"Python {platform.python_version()}; the libtorch of PyTorch {torch.__version__} in both languages"
    names = [dict(zip(("form", "cache", "policy"), case.variant.name), group=case.group) for case in cases]
    return {"language": "Python", "peer": peer, "version": version, "about": about, "cases": names}


class Case:
    """A variant and what it is measured at."""

    def __init__(self, variant, group, measure):
        self.variant, self.group, self.measure = variant, group, measure


def cases_of(variant, layer):
    if "overhead" in variant.groups:
        yield Case(variant, "overhead", lambda: overhead(variant, Empty(layer.torch)))
    if "work" in variant.groups:
        for world in json.loads((HERE / "worlds.json").read_text()):
            yield Case(variant, world["name"], lambda world=world: whole_runs(variant, Work(layer, world)))


class Variant:
    """A way to run a loop: its name (form, cache, policy), and what makes a call of some work."""

    def __init__(self, name, make, groups=("overhead", "work")):
        self.name, self.make, self.groups = name, make, groups


def loops():
    """What is written without a library where the limit is known."""

    def batch(work):
        return lambda: work.whole(work.fixed(1))

    def in_range(share):
        def make(work):
            def run():
                size, rows, start = work.fixed(share), work.rows, 0
                while start < rows:
                    end = min(start + size, rows)
                    work.piece(start, end)
                    start = end

            return run

        return make

    def chunked(work):
        def run():
            size, rows, start, data = work.fixed(1), work.rows, 0, work.data
            while start < rows:
                end = min(start + size, rows)
                work.chunk(data.narrow(0, start, end - start), start, end)
                start = end

        return run

    yield Variant(("batch", "", ""), batch, ("overhead",))
    yield Variant(("range", "", ""), in_range(1), ("overhead",))
    yield Variant(("chunked", "", ""), chunked, ("overhead",))
    for share in (1, 2, 4):
        yield Variant(("range", "", f"1/{share}"), in_range(share), ("work",))


def toma_variants():
    """The decorators with each cache, as the README of toma shows them."""
    from toma import GlobalBatchsizeCache, NoBatchsizeCache, StacktraceMemoryBatchsizeCache, toma

    def batch(cache):
        def make(work):
            @toma.batch(initial_batchsize=work.initial, cache_type=cache)
            def body(batchsize):
                work.whole(batchsize)

            return body

        return make

    def in_range(cache):
        def make(work):
            @toma.range(initial_step=work.initial, cache_type=cache)
            def body(start, end):
                work.piece(start, end)

            return lambda: body(0, work.rows)

        return make

    def chunked(cache):
        def make(work):
            @toma.chunked(initial_step=work.initial, cache_type=cache)
            def body(chunk, start, end):
                work.chunk(chunk, start, end)

            return lambda: body(work.data)

        return make

    for cache in (NoBatchsizeCache, GlobalBatchsizeCache, StacktraceMemoryBatchsizeCache):
        for form, make in (("batch", batch), ("range", in_range), ("chunked", chunked)):
            # Each of its chunks is a garbage collection, and `chunked` is `range` with a view.
            is_enough = form == "chunked" and cache is not StacktraceMemoryBatchsizeCache
            groups = ("overhead",) if is_enough else ("overhead", "work")
            yield Variant((form, cache.__name__, "half of it"), make(cache), groups)


def accelerate_variants():
    """The decorator as the documentation of accelerate shows it, which remembers in its closure."""
    from accelerate.utils import find_executable_batch_size

    def make(work):
        @find_executable_batch_size(starting_batch_size=work.initial)
        def body(batch_size):
            work.whole(batch_size)

        return body

    yield Variant(("find_executable_batch_size", "", "0.9 of it"), make)


class Empty:
    """Nothing to do, and more than one row does not fit while there is a limit."""

    def __init__(self, torch):
        self.torch, self.initial, self.limit = torch, 2, 1
        self.resize(2)

    def resize(self, rows):
        self.rows, self.chunks, self.data = rows, 0, self.torch.zeros(rows, 1)

    def fixed(self, share):
        return 1

    def whole(self, batch_size):
        self.piece(0, batch_size)

    def chunk(self, chunk, start, end):
        self.piece(start, end)

    def piece(self, start, end):
        self.chunks += 1
        if end - start > self.limit:
            run_out_of_memory(self.torch)


def overhead(variant, work):
    """Microseconds per call with one chunk, and per chunk beyond it, when nothing fails.

    It has failed once before, so that a cache has something to remember.
    """
    call = variant.make(work)
    call()
    work.limit = float("inf")
    work.resize(1)
    one = seconds_per_call(call)
    figures = {"call_us": one * 1e6}
    if variant.name[0] in ("range", "chunked"):
        figures["chunk_us"] = seconds_per_chunk(call, work, one) * 1e6
    return figures


def seconds_per_call(call):
    calls = 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        elapsed = time.perf_counter() - begin
        if elapsed >= ENOUGH:
            return elapsed / calls
        calls *= 2


def seconds_per_chunk(call, work, one):
    rows = 8
    while True:
        work.resize(rows)
        begin = time.perf_counter()
        call()
        elapsed = time.perf_counter() - begin
        if elapsed >= ENOUGH:
            return (elapsed - one) / (work.chunks - 1)
        rows *= 2


class Layer:
    """Rows, and the weights they are multiplied with, which are kept packed and unpacked at each attempt."""

    def __init__(self, torch):
        self.torch, self.rows = torch, 18_000
        self.input = torch.arange(self.rows * WIDTH, dtype=torch.float32).sin().reshape(self.rows, WIDTH)
        waves = torch.arange(WIDTH * WIDTH, dtype=torch.float32).mul(0.37).sin().mul(127)
        self.packed = waves.to(torch.int8).reshape(WIDTH, WIDTH)
        self.last = torch.arange(WIDTH * 64, dtype=torch.float32).mul(0.11).cos().reshape(WIDTH, 64)
        self.expected = self.second_half(self.first_half(self.input))

    def first_half(self, rows):
        """What comes before the allocation that may be too much."""
        weights = self.packed.to(self.torch.float32).mul_(1 / 127)
        return rows.matmul(weights).relu_()

    def second_half(self, hidden):
        return hidden.matmul(self.last).sum(1)


class Ledger:
    """What fits during one run, and which sizes were tried."""

    def __init__(self, world):
        self.rows, self.limit, self.halves = world["rows"], world["limit"], world["halves"]
        self.succeeded, self.out_of_memory = [], 0

    def fits(self, size):
        self.out_of_memory += size > self.limit
        return size <= self.limit

    def done(self, start, end):
        self.succeeded.append(end - start)
        if self.halves and end * 2 >= self.rows:
            # Once and for all: what begins again finds no more memory than that.
            self.limit, self.halves = self.limit // 2, False

    def kept_percent(self):
        """The size in force at the end: of the last piece but one, for the last is what is left over."""
        return self.succeeded[-2:][0] / self.limit * 100


class Work:
    """All rows of a world through the layer."""

    def __init__(self, layer, world):
        self.layer, self.world, self.torch = layer, world, layer.torch
        self.initial, self.rows = world["initial"], world["rows"]
        self.data, self.out = layer.input[: self.rows], self.torch.zeros(self.rows)

    def begin(self):
        self.ledger = Ledger(self.world)
        self.out.zero_()

    def fixed(self, share):
        """A size that fits throughout."""
        return self.world["limit"] // (2 if self.world["halves"] else 1) // share

    def whole(self, batch_size):
        for start in range(0, self.rows, batch_size):
            self.piece(start, min(start + batch_size, self.rows))

    def piece(self, start, end):
        self.chunk(self.data.narrow(0, start, end - start), start, end)

    def chunk(self, chunk, start, end):
        size = end - start
        # A body gets so far before it runs out of memory.
        hidden = self.layer.first_half(chunk.narrow(0, 0, min(size, self.ledger.limit)))
        if not self.ledger.fits(size):
            run_out_of_memory(self.torch)
        self.out.narrow(0, start, size).copy_(self.layer.second_half(hidden))
        self.ledger.done(start, end)

    def check(self):
        difference = (self.out - self.layer.expected[: self.rows]).abs().max().item()
        # Sizes change the order of additions, and a row left out is off by far more.
        assert difference < 1e-2, f"{self.world['name']}: results are off by {difference}"


def whole_runs(variant, work):
    """A cold run, and one that starts with what the first has left."""
    call, figures = variant.make(work), {}
    for run in ("cold", "warm"):
        work.begin()
        begin = time.perf_counter()
        call()
        figures[f"{run}_ms"] = (time.perf_counter() - begin) * 1e3
        work.check()
        figures[f"{run}_ooms"] = work.ledger.out_of_memory
        figures[f"{run}_kept_percent"] = work.ledger.kept_percent()
    return figures


def run_out_of_memory(torch):
    """Fails with libtorch's own error."""
    torch.empty(TOO_MANY_BYTES, dtype=torch.uint8)


if __name__ == "__main__":
    main()
