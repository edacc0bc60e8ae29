# SPDX-License-Identifier: Apache-2.0
"""The part of the page docs/benchmarks/timebill.md that compares closing plans with and without graceful truncation."""

from collections.abc import Sequence

from llm_planner_lab.bench.timebill.aims import Document, percent, table_of, value_of

_NAMES = {"kill": "Kill", "partial": "partial delivery"}
_HEADER = (
    "budget / vanilla",
    "strategy",
    "approach",
    "closed",
    "changed",
    "score",
    "same_numbers",
    "in time",
    "calls delivered",
)

FIELDS = """| key | meaning |
| --- | --- |
| `closed`, `late_closed` | plans closed in time: with graceful truncation, and without (`late_`, as in all pairs) |
| `score`, `same_numbers`, `in_time_rate` | as in `sweep` |
| `calls` | skill calls that reached the robot, all jobs together |
| `fitted`, `altered` | plans whole in time without graceful truncation; of these, how many are others with it |
| `changed` | jobs of `n` whose answer graceful truncation changed |
| `written_tokens`, `void_tokens` | tokens of closed plans; of these, those behind what was delivered |
"""


def steering_section(rows: Sequence[Document]) -> str:
    """Returns paragraphs and a table; all that they conclude is counted from the rows."""
    table = [
        [
            f"{row['budget_fraction']:g}",
            _NAMES[row["strategy"]],
            row["approach"],
            f"{row['late_closed']} -> {row['closed']}",
            str(row["changed"]),
            f"{value_of(row['late_score'])} -> {value_of(row['score'])}",
            f"{value_of(row['late_same_numbers'])} -> {value_of(row['same_numbers'])}",
            f"{percent(row['late_in_time_rate'])} -> {percent(row['in_time_rate'])}",
            f"{row['late_calls']} -> {row['calls']}",
        ]
        for row in rows
    ]
    text = (
        "Where a plan is closed in the midst of a condition, ours keeps the whole statements of its block "
        "(docs/time_budgets.md). The same jobs without that and with it, `late -> graceful`; Skip-Next closes nothing. "
    )
    return f"{text}{_verdict(rows)}\n\n{table_of(_HEADER, table)}"


def _verdict(rows: Sequence[Document]) -> str:
    """Returns what came of it over all points."""
    total = {key: sum(row[key] for row in rows) for key in _COUNTS}
    fitted = f"Of {total['fitted']} plans that were whole in time, {total['altered']} became another one"
    fitted += ", as it should be. " if total["altered"] == 0 else ": **a defect**. "
    if total["changed"] == 0:
        return fitted + "Graceful truncation changed no answer here."
    points = [(row["score"] or 0.0) - (row["late_score"] or 0.0) for row in rows]
    higher, lower = sum(d > 0.0 for d in points), sum(d < 0.0 for d in points)
    gained = total["calls"] - total["late_calls"]
    return (
        f"{fitted}It changed {total['changed']} of {total['n']} answers; {_signed(gained)} skill calls reached a robot "
        f"({total['late_calls']} without it). The score is higher at {higher} of {len(rows)} points, lower at {lower}. "
        f"A mask that ended plans before could deliver no more, but save steps: at most the {total['void_tokens']} of "
        f"{total['written_tokens']} tokens of closed plans that stand behind what was delivered."
    )


_COUNTS = ("n", "fitted", "altered", "changed", "calls", "late_calls", "void_tokens", "written_tokens")


def _signed(number: int) -> str:
    return f"{number} more" if number >= 0 else f"{-number} fewer"
