# SPDX-License-Identifier: Apache-2.0
"""The training loop in seconds: reproducible, resumable, and it learns."""

import math
from dataclasses import replace

import pytest

from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.training.network import load_network
from llm_planner_lab.training.run import export, train_planner
from llm_planner_lab.training.trainer import Trainer


@pytest.fixture(scope="module")
def sentences():
    return corpus()


@pytest.fixture(autouse=True)
def _few_sentences(monkeypatch, sentences):
    monkeypatch.setattr("llm_planner_lab.training.trainer.corpus", lambda: sentences[::100])


def run(options, **kwargs):
    reports = []
    Trainer(options).run(reports.append, every_steps=1, **{"exact_every": 3} | kwargs)
    return reports


def weights(options):
    return load_network(options.output).state_dict()


def test_the_same_seed_gives_the_same_model(options):
    one, two = options("one"), options("two")
    run(one)
    run(two)
    assert all(value.equal(weights(two)[name]) for name, value in weights(one).items())


def test_an_interrupted_run_goes_on(options):
    whole = options("run", max_steps=6)
    run(replace(whole, max_steps=3))
    steps = [report.step for report in run(whole)]
    assert steps[0] == 4
    assert steps[-1] == 6


def test_it_learns(options):
    trainer = Trainer(options(max_steps=30, warm_up_steps=5, learning_rate=3e-3))
    before = trainer.exact_match()
    reports = []
    trainer.run(reports.append, every_steps=10, exact_every=1000)
    chance = math.log(len(trainer.tokenizer))
    assert reports[-1].task_loss < 0.8 * chance  # the mean of the whole run, its beginning included
    assert 0.0 <= before <= reports[-1].exact_match <= 1.0


def test_a_model_of_inventories_sees_nothing_but_them(options, monkeypatch):
    monkeypatch.setattr("llm_planner_lab.training.trainer.corpus", lambda: pytest.fail("it needs no sentences"))
    trainer = Trainer(options("lists", max_steps=3, is_inventory=True, max_objects=20, held_out_tasks=2))
    reports = []
    trainer.run(reports.append, every_steps=1, exact_every=2)
    assert reports[-1].exact_match == reports[-1].spoken_match == 0.0
    text = trainer.tokenizer.decode(next(b for b in _batches(trainer) if b.kind == "tasks").token_ids[0])
    assert "l('" in text or "place(" in text


def _batches(trainer):
    return (trainer.stream.next(1.0, 0.0) for _ in range(40))


def test_warm_start_begins_with_the_old_weights(options):
    old = options("old")
    run(old)
    new = Trainer(options("new", start_from=old.output))
    assert all(value.equal(new.network.state_dict()[name]) for name, value in weights(old).items())


def test_train_planner_writes_a_model_directory(options, tmp_path):
    train_planner(options("run", max_steps=3))
    export(tmp_path / "run", tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"config.json", "model.safetensors", "planner.json", "tokenizer.json", "tokenizer_config.json"}


def test_authors_whose_plans_the_old_model_knows_are_drawn_less_often(options, monkeypatch, sentences):
    old = options("old", max_steps=80, warm_up_steps=5, learning_rate=3e-3)
    plain = [f for f in sentences if not f.scene]
    stops = [replace(f, author="one") for f in plain if f.plan == "h();" and f.robot == "tello"][:40]
    monkeypatch.setattr("llm_planner_lab.training.trainer.corpus", lambda: stops)
    monkeypatch.setattr("llm_planner_lab.training.data._SPOKEN_SHARE", 1.0)
    monkeypatch.setattr("llm_planner_lab.training.data._REPLANNED_SHARE", 0.0)  # a stop does not fail
    run(old, exact_every=1000)
    others = [replace(f, author="two") for f in plain if f.plan.startswith("pick(")][:50]
    warning = replace(stops[0], sentence="watch out", is_danger=True)
    choice = replace(stops[0], sentence="not the red one, the other", scene=("red_cup", "blue_cup"))
    monkeypatch.setattr("llm_planner_lab.training.trainer.corpus", lambda: [*stops, warning, choice, *others])
    weights = Trainer(options("new", start_from=old.output)).frame_weights()
    known, warned, chosen, unknown = weights[0], weights[len(stops)], weights[len(stops) + 1], weights[-1]
    assert 0.1 <= known < 0.5 * unknown
    assert warned == chosen == unknown


def test_a_model_that_knows_nothing_draws_all_sentences_alike(options):
    assert Trainer(options()).frame_weights() is None


def test_dropout_is_for_steps_only(options):
    plain, dropping = Trainer(options("plain")), Trainer(options("dropping", dropout=0.3))
    batch = plain.stream.next(0.0, 1.0)
    counts = batch.is_target[:, 1:]
    assert plain._token_losses(batch, counts).equal(dropping._token_losses(batch, counts))
    plain._learn(batch)
    dropping._learn(batch)
    assert not any(a.equal(b) for a, b in zip(plain.weights.masters, dropping.weights.masters, strict=True))
    measured = [dropping._token_losses(batch, counts) for _ in range(2)]
    assert measured[0].equal(measured[1])
