# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner_lab.training.length import boosting
from llm_planner_lab.training.length.boosting import boosted_lengths
from llm_planner_lab.training.length.data import Example
from llm_planner_lab.training.length.measure import errors_of


def examples(count, seed):
    """Prompts whose responses have four tokens for each 7 in them."""
    rng = random.Random(seed)
    prompts = [tuple(rng.choices(range(3, 12), k=rng.randint(5, 40))) for _ in range(count)]
    return [Example(prompt, 1 + 4 * prompt.count(7)) for prompt in prompts]


@pytest.mark.skipif(not boosting.is_installed(), reason=boosting.HOW_TO_INSTALL)
def test_trees_learn_from_counts_and_repeat_with_the_seed():
    train, test = examples(400, 0), examples(100, 1)
    predicted = boosted_lengths(train, test, seed=0)
    assert errors_of(predicted, [e.num_tokens for e in test]).r2 > 0.9
    assert predicted == boosted_lengths(train, test, seed=0)


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(boosting, "is_installed", lambda: False)
    with pytest.raises(PlannerError, match="make setup-dev"):
        boosted_lengths(examples(3, 0), examples(3, 0), seed=0)
