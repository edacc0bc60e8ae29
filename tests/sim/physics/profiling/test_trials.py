# SPDX-License-Identifier: Apache-2.0
import random
from types import SimpleNamespace

from llm_planner.sim.physics.profiling.trials import _number, grid


def skill(low, high):
    return SimpleNamespace(number=SimpleNamespace(minimum=low, maximum=high))


def test_what_is_judged_by_lies_between_the_points_of_the_grid():
    drawn = {_number(skill(20.0, 500.0), None, random.Random(seed)) for seed in range(50)}
    assert len(drawn) > 20
    assert not drawn & set(grid(20.0, 500.0))
    assert all(20 <= number <= 500 for number in drawn)


def test_a_range_without_anything_between_its_points_ends_too():
    assert _number(skill(1.0, 3.0), None, random.Random(0)) in {1.0, 2.0, 3.0}
