# SPDX-License-Identifier: Apache-2.0
"""Which rows of a table a model may learn from, and which it is asked about."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llm_planner.prediction.throughput.table import Measurement

SHARE = 0.2
"""Rows or combinations that are left out of a random split."""


@dataclass(frozen=True, slots=True)
class Split:
    """A table in two.

    Attributes:
        name: What was left out.
        train: May be learned from, in whatever way.
        test: Touched by nothing but the evaluation.
    """

    name: str
    train: tuple[Measurement, ...]
    test: tuple[Measurement, ...]


def random_rows(table: Sequence[Measurement], seed: int) -> Split:
    """Returns a fifth of the rows as test; of combinations with one row, that row is learned from."""
    rows = list(table)
    random.Random(f"rows/{seed}").shuffle(rows)
    num_test = round(SHARE * len(rows))
    train, test = rows[num_test:], rows[:num_test]
    known = {m.combination for m in train}
    alone = [m for m in test if m.combination not in known]
    return Split(f"random rows, seed {seed}", (*train, *alone), tuple(m for m in test if m.combination in known))


def left_out_combinations(table: Sequence[Measurement], seed: int, num_folds: int = 5) -> list[Split]:
    """Returns as many splits; each combination (a model in a framework on its devices) is test in one of them."""
    combinations = sorted({m.combination for m in table})
    random.Random(f"combinations/{seed}").shuffle(combinations)
    fold = {combination: number % num_folds for number, combination in enumerate(combinations)}
    splits = []
    for number in range(num_folds):
        left_out = {combination for combination in combinations if fold[combination] == number}
        name = f"combinations, fold {number + 1} of {num_folds}"
        splits.append(_split(name, table, {m for m in table if m.combination in left_out}))
    return splits


def large_batches(table: Sequence[Measurement], above: int = 32) -> Split:
    """Returns the batches above a size as test, of combinations that have smaller ones to learn from."""
    known = {m.combination for m in table if m.batch_size <= above}
    kept = [m for m in table if m.combination in known]
    return _split(f"batches above {above}", kept, {m for m in kept if m.batch_size > above})


def left_out_model(table: Sequence[Measurement], model: str) -> Split:
    """Returns all rows of a model as test."""
    return _split(f"model {model}", table, {m for m in table if m.combination.model == model})


def left_out_hardware(table: Sequence[Measurement], hardware: str) -> Split:
    """Returns all rows of a device as test."""
    return _split(f"hardware {hardware}", table, {m for m in table if m.combination.hardware == hardware})


def _split(name: str, table: Sequence[Measurement], test: Collection[Measurement]) -> Split:
    return Split(name, tuple(m for m in table if m not in test), tuple(m for m in table if m in test))
