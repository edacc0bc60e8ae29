# SPDX-License-Identifier: Apache-2.0
import itertools
import random

import pytest
import torch

from lab.tests.training.length.builders import save_target
from llm_planner_lab.training.length.data import Example, shuffled
from llm_planner_lab.training.length.measure import errors_of, predict_lengths
from llm_planner_lab.training.length.network import Start
from llm_planner_lab.training.length.objectives import Buckets, Regression
from llm_planner_lab.training.length.trainer import LengthTrainer, Recipe


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return save_target(tmp_path_factory.mktemp("targets") / "target")


def examples(count, seed=0):
    """Prompts whose last token alone decides the length."""
    rng = random.Random(seed)
    lasts = [rng.randint(10, 13) for _ in range(count)]
    return [Example((*rng.choices(range(20, 60), k=rng.randint(3, 9)), last), 4 * (last - 9)) for last in lasts]


def trainer(target, checkpoint, objective=None, source=None, **fields):
    recipe = Recipe(start=Start(target, source, 1, 32), head_input_tokens=4, **({"steps": 8} | fields))
    some = examples(64)
    objective = objective or Buckets.of([e.num_tokens for e in some], 1, 20)
    return LengthTrainer(recipe, objective, some, checkpoint)


def weights(network):
    return torch.cat([parameter.flatten().float() for parameter in network.parameters()])


def run(target, checkpoint, **fields):
    return weights(trainer(target, checkpoint, **fields).run(lambda _: None))


def test_the_same_seed_trains_the_same_network(target, tmp_path):
    one, same, other = (run(target, tmp_path / str(i), seed=seed) for i, seed in enumerate((3, 3, 4)))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(target, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner_lab.training.length.trainer._SAVE_EVERY", 3)
    whole = run(target, tmp_path / "whole")
    broken = trainer(target, tmp_path / "broken")
    learn, steps = broken._learn, itertools.count()

    def fail_at_five(batch):
        if next(steps) == 5:
            raise KeyboardInterrupt
        return learn(batch)

    broken._learn = fail_at_five
    with pytest.raises(KeyboardInterrupt):
        broken.run(lambda _: None)
    resumed = trainer(target, tmp_path / "broken")
    assert resumed.step == 3
    assert torch.equal(weights(resumed.run(lambda _: None)), whole)


def test_the_checkpoint_of_another_run_does_not_count(target, tmp_path):
    run(target, tmp_path / "c")
    assert trainer(target, tmp_path / "c").step == 8
    assert trainer(target, tmp_path / "c", seed=9).step == 0
    assert trainer(target, tmp_path / "c", steps=9).step == 0


def test_a_limit_of_time_ends_a_run(target, tmp_path):
    short = trainer(target, tmp_path / "c", seconds=1e-3)
    short.run(lambda _: None)
    assert short.step >= 1
    assert short.progress == 1.0


@pytest.mark.parametrize("kind", ["buckets", "regression"])
@pytest.mark.parametrize("is_warm", [True, False])
def test_it_learns_what_decides_the_length(target, tmp_path, kind, is_warm):
    objective = Regression.of([e.num_tokens for e in examples(64)]) if kind == "regression" else None
    source = target if is_warm else None
    told = trainer(target, tmp_path / "c", objective, source, steps=100)
    network, fresh = told.run(lambda _: None), examples(50, seed=1)
    predicted = predict_lengths(network, told._objective, fresh, 32, 4)
    assert errors_of(predicted, [e.num_tokens for e in fresh]).r2 > 0.8


def test_groups_hold_every_example_once_a_round():
    some = examples(50)
    groups = list(itertools.islice(shuffled(some, 8, seed=1), 14))
    assert sorted(map(id, itertools.chain(*groups[:7]))) == sorted(map(id, some))
    assert sorted(map(id, itertools.chain(*groups[7:]))) == sorted(map(id, some))
