"""Tests of `peers.py` and `compare.py` that need none of the packages they measure."""

import io
import json
import sys
import unittest

import compare
import peers


class Rows:
    """Rows that are only taken note of."""

    initial, rows = 4, 10

    def __init__(self):
        self.pieces, self.data = [], self

    def narrow(self, axis, start, length):
        return (axis, start, length)

    def fixed(self, share):
        return 4 // share

    def whole(self, batch_size):
        self.pieces.append(batch_size)

    def piece(self, start, end):
        self.pieces.append((start, end))

    def chunk(self, chunk, start, end):
        assert chunk == (0, start, end - start), chunk
        self.piece(start, end)


class Loops(unittest.TestCase):
    def test_every_row_is_worked_off_once(self):
        for variant in peers.loops():
            rows = Rows()
            variant.make(rows)()
            if variant.name[0] == "batch":
                self.assertEqual(rows.pieces, [4])
            else:
                done = [row for start, end in rows.pieces for row in range(start, end)]
                self.assertEqual(done, list(range(10)), variant.name)

    def test_sizes_are_the_part_of_the_limit_in_their_name(self):
        for variant in peers.loops():
            if variant.name[2]:
                rows, share = Rows(), int(variant.name[2].removeprefix("1/"))
                variant.make(rows)()
                self.assertEqual(rows.pieces[0], (0, 4 // share))


class Ledgers(unittest.TestCase):
    def ledger(self, halves):
        return peers.Ledger({"rows": 100, "limit": 20, "halves": halves})

    def test_failures_are_sizes_above_the_limit(self):
        ledger = self.ledger(False)
        self.assertEqual([ledger.fits(size) for size in (21, 20, 40, 1)], [False, True, False, True])
        self.assertEqual(ledger.out_of_memory, 2)

    def test_the_limit_halves_once_when_half_is_done(self):
        ledger = self.ledger(True)
        limits = []
        for start in (0, 20, 40, 0, 60, 80):
            ledger.done(start, start + 20)
            limits.append(ledger.limit)
        self.assertEqual(limits, [20, 20, 10, 10, 10, 10])

    def test_kept_is_the_last_piece_but_one(self):
        ledger = self.ledger(False)
        for start, end in ((0, 16), (16, 31), (31, 32)):
            ledger.done(start, end)
        self.assertEqual(ledger.kept_percent(), 75)

    def test_kept_of_a_single_piece_is_that_piece(self):
        ledger = self.ledger(False)
        ledger.done(0, 20)
        self.assertEqual(ledger.kept_percent(), 100)


class Serving(unittest.TestCase):
    def test_each_question_is_answered_on_a_line_of_its_own(self):
        cases = [peers.Case(None, "", lambda figure=figure: {"figure": figure}) for figure in (7, 8)]
        answers = io.StringIO()
        peers.serve({"peer": "none"}, cases, io.StringIO("1\n0\n1\n"), answers)
        lines = [json.loads(line) for line in answers.getvalue().splitlines()]
        self.assertEqual(lines, [{"peer": "none"}, {"figure": 8}, {"figure": 7}, {"figure": 8}])

    def test_a_variant_is_measured_in_its_groups(self):
        names = {world["name"] for world in json.loads((peers.HERE / "worlds.json").read_text())}
        layer = type("Layer", (), {"torch": None})
        both, work = peers.Variant((), None), peers.Variant((), None, ("work",))
        self.assertEqual({case.group for case in peers.cases_of(both, layer)}, names | {"overhead"})
        self.assertEqual({case.group for case in peers.cases_of(work, layer)}, names)


def answers(peer, version, cases):
    names = ("form", "cache", "policy", "group", "samples")
    return {"language": "L", "peer": peer, "version": version, "cases": [dict(zip(names, case)) for case in cases]}


def whole_run(cold, warm):
    figures = {"cold_ms": cold, "warm_ms": warm, "cold_ooms": [3] * 3, "cold_kept_percent": [75] * 3, "warm_ooms": [0] * 3}
    return figures


class Comparing(unittest.TestCase):
    loop = answers("loop", "", [
        ("range", "", "", "overhead", {"call_us": [1, 2, 3], "chunk_us": [1, 5, 9]}),
        ("range", "", "1/1", "w", whole_run([40, 40, 40], [40, 40, 40])),
        ("range", "", "1/2", "w", whole_run([10, 20, 40], [10, 20, 40])),
    ])
    ours = answers("toma", "1.0", [
        ("range", "C", "P", "overhead", {"call_us": [3, 4, 5], "chunk_us": [3, 7, 11.5]}),
        ("range", "C", "P", "w", whole_run([20, 30, 60], [10, 20, 40])),
    ])

    def test_figures_are_compared_round_by_round_and_with_the_best_loop(self):
        *_, row = compare.rows([self.loop, self.ours], ["w"])
        self.assertEqual((row["call_us"], row["chunk_us"]), (2, 2))
        # 2, 1.5 and 1.5 of the better loop in the same round.
        self.assertEqual((row["runs"][0]["cold_ratio"], row["runs"][0]["warm_ratio"]), (1.5, 1))
        line = "| toma 1.0 (L) | `range` | `C` | `P` | 2.000 | 2.000 | 3 | 75 | 1.50 | 1.00 | 30 | 20 | 0 |"
        self.assertEqual(compare.table([row]).splitlines()[2], line)

    def test_each_case_is_asked_for_once_a_round_and_every_other_round_backwards(self):
        case = {"form": "range", "cache": "", "policy": "", "group": "w"}
        hello = json.dumps(answers("p", "1", [tuple(case.values())] * 2))
        code = f"print('{hello}', flush=True)\nfor n, case in enumerate(open(0)): print('{{\"n\":%d}}' % n, flush=True)"
        worker = compare.Worker([sys.executable, "-c", code])
        [peer] = compare.measure([worker], 2)
        worker.process.communicate()
        self.assertEqual([case["samples"]["n"] for case in peer["cases"]], [[0, 3], [1, 2]])

    def test_libraries_that_were_not_found_are_named_once(self):
        ldd = "\tlibb.so.2 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\tliba.so => not found\n\tlibb.so.2 => not found\n"
        self.assertEqual(compare.missing(ldd), ["liba.so", "libb.so.2"])


if __name__ == "__main__":
    unittest.main()
