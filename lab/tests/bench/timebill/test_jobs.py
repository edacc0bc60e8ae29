# SPDX-License-Identifier: Apache-2.0
"""Jobs for the sweep of time budgets, and how answers are scored."""

import random
from dataclasses import replace

import pytest

from llm_planner.checkpoints import build_prompt_encoder
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.timebill import jobs as timebill_jobs
from llm_planner_lab.bench.timebill.eviction import num_prompt_tokens
from llm_planner_lab.bench.timebill.jobs import (
    FIRST_SEED,
    Workload,
    draw_jobs,
    draw_task,
    score,
    share_done,
)
from llm_planner_lab.tasks.inventory import sample_inventory
from tests.engine.builders import save_model

CLASSES = ((100, 300), (300, 900))
WORKLOAD = Workload(num_seeds=2, per_class=2, classes=CLASSES)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = save_model(tmp_path_factory.mktemp("model"))
    (path / "planner.json").write_text('{"prompt_style": "compact"}')
    return build_prompt_encoder(path)


@pytest.fixture(scope="module")
def jobs(encoder):
    return draw_jobs(WORKLOAD, encoder, RobotLibrary())


def test_every_seed_has_as_many_jobs_of_every_class(jobs):
    assert sorted((job.seed, job.class_index) for job in jobs) == [
        (s, c) for s in (FIRST_SEED, FIRST_SEED + 1) for c in (0, 0, 1, 1)
    ]
    assert all(CLASSES[j.class_index][0] <= j.num_prompt_tokens < CLASSES[j.class_index][1] for j in jobs)
    assert len({job.name for job in jobs}) == len(jobs)


def test_jobs_are_the_same_every_time_and_are_chosen_by_their_prompts_alone(jobs, encoder):
    assert draw_jobs(WORKLOAD, encoder, RobotLibrary()) == jobs
    for seed in {job.seed for job in jobs}:
        rng, found = random.Random(seed), {index: [] for index in range(len(CLASSES))}
        while any(len(tasks) < WORKLOAD.per_class for tasks in found.values()):
            if (task := draw_task(rng)).scene:
                num_tokens = num_prompt_tokens(task, encoder, RobotLibrary())
                for tasks in (found[i] for i, (low, high) in enumerate(CLASSES) if low <= num_tokens < high):
                    tasks.append(task)
        first = [(index, task) for index, tasks in found.items() for task in tasks[: WORKLOAD.per_class]]
        drawn = [(job.class_index, job.task) for job in jobs if job.seed == seed]
        assert sorted(map(repr, drawn)) == sorted(map(repr, first))


def test_lengths_that_do_not_occur_are_refused(encoder, monkeypatch):
    monkeypatch.setattr(timebill_jobs, "MAX_DRAWS", 50)
    with pytest.raises(PlannerError) as caught:
        draw_jobs(Workload(num_seeds=1, per_class=1, classes=((1, 2),)), encoder, RobotLibrary())
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_the_reference_plan_scores_best_and_no_answer_nothing(jobs):
    for job in jobs:
        right, none = (score(job.task, plan, RobotLibrary()) for plan in (job.task.plan, None))
        assert (right.success, right.same_numbers) in ((1.0, 1.0), (1.0, None))
        assert (none.success, none.same_numbers) in ((0.0, 0.0), (0.0, None))


def test_numbers_count_in_their_places(jobs):
    task = replace(jobs[0].task, plan="mf(100);tc(90);mf(20);")
    assert score(task, "mf(100);tc(45);mf(20);", RobotLibrary()).same_numbers == pytest.approx(2 / 3)
    assert score(task, "mf(100);", RobotLibrary()).same_numbers == pytest.approx(1 / 3)
    assert score(task, "tc(90);mf(100);", RobotLibrary()).same_numbers == 0.0


def test_a_plan_that_the_gate_refuses_scores_nothing(jobs):
    assert score(jobs[0].task, "not a plan", RobotLibrary()).success == 0.0


@pytest.fixture(scope="module")
def inventory():
    """A drone flies to one place, and names eleven things."""
    return sample_inventory(random.Random(3), 40, 12)


def test_a_list_is_worth_what_it_has(inventory):
    calls = inventory.plan.split(";")
    assert calls.pop(0).startswith("g(")
    some = ";".join(calls[:5]) + ";"
    library = RobotLibrary()
    assert share_done(inventory, inventory.plan, library).success == 1.0
    assert share_done(inventory, some, library).success == pytest.approx(2 * 5 / (5 + 11))
    assert share_done(inventory, inventory.plan.replace("_", " ").replace("drawer ", "drawer_"), library).success == 1.0
    assert share_done(inventory, None, library).success == 0.0
    assert share_done(inventory, "no plan", library).success == 0.0


def test_what_was_not_asked_for_costs(inventory):
    got = share_done(inventory, inventory.plan + "l('more');", RobotLibrary()).success
    assert got == pytest.approx(2 * 11 / (12 + 11))
