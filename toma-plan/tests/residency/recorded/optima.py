"""Least bytes that a recorded step moves each time it is repeated, as an integer program solved by HiGHS.

    pip install highspy==1.15.1
    python optima.py    # writes optima.json beside the steps

A storage may be away between two operators that touch it in succession, or between the last one and its end. There
is a variable for each such gap, which costs the bytes of a fetch if the storage comes back, and one for each version
between two writes, which costs the bytes of a copy and is at least every gap of that version. Beside each operator
the bytes that are not away fit the budget.
"""

import json
import math
from pathlib import Path

import highspy

PERCENT = [80, 60, 40, 30, 20]
GAP = 1e-6
SECONDS = 600


def touches(storage, uses, operators):
    """What touches it in its life, by operator and whether a version begins, and where the life ends."""
    birth, death = storage["birth"], storage["death"]
    if birth is None and death is None:
        # Round and round: from a write, if there is one.
        first = next((at for at, (_, writes) in enumerate(uses) if writes), 0)
        around = uses[first:] + [(operator + operators, writes) for operator, writes in uses[:first]]
        return around, (around[0][0] + operators if around else None), True
    if birth is None:
        start = [] if uses and uses[0][0] == 0 else [(0, True)]
        return start + uses, death, False
    later = [use for use in uses if use[0] > birth]
    earlier = [(operator + operators, writes) for operator, writes in uses if operator < birth]
    end = birth + operators if death is None else death + operators if death <= birth else death
    return [(birth, True)] + later + earlier, end, False


def gaps_of(step):
    """(bytes, operators beside which it is away, whether it comes back, version) of each gap; bytes of each version."""
    operators = len(step["operators"])
    uses = [[] for _ in step["storages"]]
    for at, operator in enumerate(step["operators"]):
        for use in operator["uses"]:
            uses[use["storage"]].append((at, use["writes"]))
    gaps, versions = [], []
    for number, storage in enumerate(step["storages"]):
        if storage["stays"]:
            continue
        size = storage["bytes"]
        touched, end, around = touches(storage, uses[number], operators)
        if not touched:
            gaps.append((size, range(operators), False, None))
            continue
        # What is never written has a copy from its first absence on.
        free = around and not any(writes for _, writes in touched)
        version = None
        for index, (at, writes) in enumerate(touched):
            if not free and (writes or version is None):
                versions.append(size)
                version = len(versions) - 1
            last = index + 1 == len(touched)
            until = end if last else touched[index + 1][0]
            away = [operator % operators for operator in range(at + 1, until)]
            if away:
                gaps.append((size, away, around or not last, version))
    return gaps, versions


def resident(step):
    """Bytes beside each operator if nothing is away."""
    operators = len(step["operators"])
    level = [operator["inside_bytes"] for operator in step["operators"]]
    for storage in step["storages"]:
        birth, death = storage["birth"], storage["death"]
        for at in range(operators):
            if birth is None:
                lives = death is None or at < death
            elif death is None:
                lives = at != birth
            elif death <= birth:
                lives = at < death or at > birth
            else:
                lives = birth < at < death
            level[at] += storage["bytes"] * lives
    return level


def least_budget(step, gaps, level):
    away = [0] * len(level)
    for size, operators, _, _ in gaps:
        for operator in operators:
            away[operator] += size
    return max(bytes - gone for bytes, gone in zip(level, away))


def optimum(level, gaps, versions, budget):
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", GAP)
    solver.setOptionValue("time_limit", float(SECONDS))
    unit = 1 << 10
    covering = [[] for _ in level]
    copies = [solver.addBinary(obj=size / unit) for size in versions]
    for size, operators, back, version in gaps:
        gap = solver.addBinary(obj=size / unit if back else 0.0)
        for operator in operators:
            covering[operator].append((size, gap))
        if version is not None:
            solver.addConstr(copies[version] - gap >= 0)
    for bytes, row in zip(level, covering):
        if bytes > budget:
            solver.addConstr(sum(size / unit * gap for size, gap in row) >= (bytes - budget) / unit)
    solver.run()
    status = solver.modelStatusToString(solver.getModelStatus())
    info = solver.getInfo()
    return status, info.objective_function_value * unit, info.mip_dual_bound * unit


def main():
    folder = Path(__file__).parent
    rows = []
    for path in sorted(folder.glob("*.json")):
        if path.stem == "optima":
            continue
        step = json.loads(path.read_text())
        gaps, versions = gaps_of(step)
        level = resident(step)
        least = least_budget(step, gaps, level)
        for percent in PERCENT:
            budget = max(level) * percent // 100
            if budget < least:
                continue
            status, found, bound = optimum(level, gaps, versions, budget)
            rows.append({
                "step": path.stem,
                "percent": percent,
                "budget_bytes": budget,
                "moved_bytes": round(found),
                "bound_bytes": math.floor(bound),
            })
            print(status, rows[-1], flush=True)
    (folder / "optima.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


main()
