"""Tests of `compare.py` that need none of the packages it measures."""

import io
import json
import sys
import unittest
from unittest import mock

import compare


class Rows:
    """Rows whose pieces are only recorded."""

    initial, rows = 4, 10

    def __init__(self):
        self.pieces, self.data = [], self

    def narrow(self, axis, start, length):
        return (axis, start, length)

    def fixed(self, share):
        return 4 // share

    def whole(self, batch_size):
        self.pieces.append((0, batch_size))

    def piece(self, start, end):
        self.pieces.append((start, end))

    def chunk(self, chunk, start, end):
        assert chunk == (0, start, end - start), chunk
        self.piece(start, end)


class Peer(unittest.TestCase):
    def test_loops_process_each_row_once_with_the_part_of_the_limit_in_their_name(self):
        for (form, _, policy), make, _ in compare.loops():
            rows, size = Rows(), 4 // int(policy.removeprefix("1/") or 1)
            make(rows)()
            self.assertEqual(rows.pieces[0], (0, size))
            if form != "batch":
                done = [row for start, end in rows.pieces for row in range(start, end)]
                self.assertEqual(done, list(range(10)))

    def test_each_question_is_answered_on_a_line_of_its_own(self):
        cases = [("a", lambda: {"figure": 7}), ("b", lambda: {"figure": 8})]
        answers = io.StringIO()
        compare.serve({"peer": "none"}, cases, io.StringIO("1\n0\n1\n"), answers)
        lines = [json.loads(line) for line in answers.getvalue().splitlines()]
        self.assertEqual(lines, [{"peer": "none", "cases": ["a", "b"]}, {"figure": 8}, {"figure": 7}, {"figure": 8}])

    def test_a_variant_is_measured_in_its_worlds(self):
        names = [name["group"] for name, _ in compare.cases_of(compare.loops(), None)]
        self.assertEqual(names, ["overhead"] * 3 + [world["name"] for world in compare.WORLDS] * 3)


@mock.patch.object(compare.Work, "check", mock.Mock())
@mock.patch.object(compare, "run_out_of_memory", mock.Mock(side_effect=MemoryError))
class WholeRuns(unittest.TestCase):
    def runs(self, pieces, halves=False):
        def make(work):
            def call():
                for start, end in pieces:
                    try:
                        work.piece(start, end)
                    except MemoryError:
                        pass

            return call

        world = {"rows": 100, "initial": 1, "limit": 20, "halves": halves}
        results = compare.whole_runs(make, mock.MagicMock(), world)
        return [(results[f"{run}_ooms"], results[f"{run}_kept_percent"]) for run in ("cold", "warm")]

    def test_failures_are_sizes_above_the_limit(self):
        self.assertEqual(self.runs([(0, 21), (0, 20), (20, 60), (20, 21)]), [(2, 100)] * 2)

    def test_the_limit_halves_once_when_half_is_done(self):
        ends = [(0, 20), (20, 40), (40, 60), (0, 20), (0, 10), (80, 90), (90, 100)]
        self.assertEqual(self.runs(ends, halves=True), [(1, 100)] * 2)

    def test_kept_is_the_last_piece_but_one_or_the_only_one(self):
        self.assertEqual(self.runs([(0, 16), (16, 31), (31, 32)]), [(0, 75)] * 2)
        self.assertEqual(self.runs([(0, 20)]), [(0, 100)] * 2)


def case(peer, version, names, group, samples):
    names = dict(zip(("form", "cache", "policy"), names))
    return {"language": "L", "peer": peer, "version": version, **names, "group": group, "samples": samples}


def whole_run(ms):
    counts = {"cold_ooms": [3] * 3, "cold_kept_percent": [75] * 3, "warm_ooms": [0] * 3}
    return {"cold_ms": ms, "warm_ms": ms[::-1], **counts}


class Comparing(unittest.TestCase):
    def test_figures_are_compared_round_by_round_and_with_the_best_loop(self):
        cases = [
            case("loop", "", ("batch", "", ""), "overhead", {"call_us": [1, 1, 1]}),
            case("loop", "", ("range", "", ""), "overhead", {"call_us": [1, 2, 3], "chunk_us": [1, 5, 9]}),
            case("loop", "", ("range", "", "1/1"), "w", whole_run([40, 40, 40])),
            case("loop", "", ("range", "", "1/2"), "w", whole_run([10, 20, 30])),
            case("toma", "1.0", ("range", "C", "P"), "overhead", {"call_us": [3, 4, 5], "chunk_us": [3, 7, 11.5]}),
            case("toma", "1.0", ("range", "C", "P"), "w", whole_run([20, 30, 80])),
            case("other", "2", ("another", "", ""), "overhead", {"call_us": [5, 4, 6]}),
        ]
        lines = compare.table(cases).splitlines()
        self.assertEqual(lines[3], "| loop (L) | `range` |  |  | 2.000 | 5.000 |  |  |  |  |  |  |  |")
        # 20 ms is the time of the better loop in each round.
        line = "| toma 1.0 (L) | `range` | `C` | `P` | 2.000 | 2.000 | 3 | 75 | 1.50 | 1.50 | 30 | 30 | 0 |"
        self.assertEqual(lines[6:], [line, "| other 2 (L) | `another` |  |  | 4.000 |  |  |  |  |  |  |  |  |"])

    def test_each_case_is_measured_once_a_round_and_every_other_round_backwards(self):
        hello = json.dumps({"language": "L", "cases": [{}, {}]})
        code = f"print('{hello}', flush=True)\nfor n, _ in enumerate(open(0)): print('{{\"n\":%d}}' % n, flush=True)"
        cases = compare.start([sys.executable, "-c", code])
        compare.measure(cases, 2)
        cases[0]["process"].communicate()
        self.assertEqual([case["samples"]["n"] for case in cases], [[0, 3], [1, 2]])


if __name__ == "__main__":
    unittest.main()
