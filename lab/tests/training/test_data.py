# SPDX-License-Identifier: Apache-2.0
"""Batches: reproducible, the plan is the target, difficulty grows."""

import random
import re
from dataclasses import replace

import pytest

from llm_planner_lab.tasks.inventory import THINGS_SEEN
from llm_planner_lab.tasks.replanned import sample_replanned
from llm_planner_lab.tasks.sample import Task, sample
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.training.data import (
    BatchStream,
    InventoryStream,
    collate,
    difficulty_at,
    encode_replanned,
    encode_task,
    induction_share,
)
from llm_planner_lab.training.prompts import as_shown, task_prompt, written_plan


def draw(tokenizer, seed, count=12):
    stream = BatchStream(tokenizer, seed)
    return [stream.next(index / count, 2.0) for index in range(count)]


def test_the_same_seed_gives_the_same_batches(tokenizer):
    one, two, other = draw(tokenizer, 1), draw(tokenizer, 1), draw(tokenizer, 2)
    assert all(a.token_ids.equal(b.token_ids) and a.is_target.equal(b.is_target) for a, b in zip(one, two, strict=True))
    assert not all(a.token_ids.equal(b.token_ids) for a, b in zip(one, other, strict=True) if a.kind == b.kind)


def test_the_plan_and_its_end_are_the_target(tokenizer):
    task = sample(random.Random(0), family="look_for")
    batch = collate([encode_task(tokenizer, task)])
    target = batch.token_ids[batch.is_target].tolist()
    assert tokenizer.decode(target[:-1]) == written_plan(task.plan, task)
    assert target[-1] == tokenizer.eos_token_id


def test_of_a_plan_that_failed_the_last_one_is_the_target(tokenizer):
    replanned = sample_replanned(random.Random(0))
    batch = collate([encode_replanned(tokenizer, replanned)])
    target = batch.token_ids[batch.is_target].tolist()
    assert tokenizer.decode(target[:-1]) == written_plan(replanned.plan, replanned.task)
    read = batch.token_ids[0, : batch.is_target[0].tolist().index(True)].tolist()
    written = "".join(piece for turn in replanned.turns for piece in turn)
    assert tokenizer.decode(read) == (task_prompt(replanned.task) + written_plan(written, replanned.task)).replace(
        " ", ""
    )


def test_random_strings_are_predictable_where_they_count(tokenizer):
    batch = next(b for b in draw(tokenizer, 3, 40) if b.kind == "induction")
    row, is_target = batch.token_ids[0].tolist(), batch.is_target[0].tolist()
    period = is_target.index(True) - 1
    assert all(row[i] == row[i - period] for i, counts in enumerate(is_target) if counts)


def test_many_of_the_late_tasks_have_crowded_scenes(tokenizer):
    stream = BatchStream(tokenizer, 5)
    batches = [stream.next(1.0, 0.0) for _ in range(150)]
    rows = [int((row != 0).sum()) for batch in batches if batch.kind == "tasks" for row in batch.token_ids]
    assert 0.01 < sum(length > 500 for length in rows) / len(rows) < 0.3


def test_a_scene_is_cut_down_to_what_a_planner_shows_of_it_unless_the_plan_needs_more():
    cup, chair = PlacedObject("cup_1", 0.4, 0.0), PlacedObject("chair_2", 1.0, 1.0)
    task = Task("pick", "indy7", "pick the cup up", "cup_1, chair_2", "pick(cup_1);", (cup, chair), ("same_outcome",))
    assert as_shown(task).scene == "cup_1"
    needing = replace(task, plan="pick(cup_1);place(cup_1,chair_2);")
    assert as_shown(needing) == needing


@pytest.mark.parametrize(("early", "late"), [(0.0, 0.3), (0.3, 1.0)])
def test_difficulty_grows(early, late):
    one, two = difficulty_at(early), difficulty_at(late)
    assert one.max_objects < two.max_objects
    assert one.max_clauses <= two.max_clauses
    assert difficulty_at(1.0).max_objects == 200


def test_what_is_asked_about_one_inventory_is_learned_together(tokenizer):
    stream = InventoryStream(tokenizer, 0, max_objects=100)
    batch = next(some for some in (stream.next(0.0, 0.0) for _ in range(100)) if some.kind == "tasks")
    scene = tokenizer.decode(batch.scene_ids[0])
    assert batch.token_ids.shape[0] > 1
    said = set()
    for token_ids, is_target, is_said in zip(batch.token_ids, batch.is_target, batch.is_said, strict=True):
        said.add(tokenizer.decode(token_ids[is_said]))
        *plan, end = token_ids[is_target].tolist()
        names = re.findall(r"[a-z]+_\d+", tokenizer.decode(plan))
        assert names
        assert all(name in scene for name in names)
        assert end == tokenizer.eos_token_id
    assert len(said) > 1


def test_scenes_of_inventories_are_long_at_the_end_of_a_run(tokenizer):
    for progress, is_long in ((0.0, False), (1.0, True)):
        stream = InventoryStream(tokenizer, 0, max_objects=560, max_length=100_000)
        drawn = [batch.scene_ids for batch in (stream.next(progress, 0.0) for _ in range(8)) if batch.kind == "tasks"]
        assert drawn
        assert all((tokenizer.decode(ids[0]).count(",") >= THINGS_SEEN[0] - 1) == is_long for ids in drawn)


def test_random_strings_become_fewer_once_the_model_copies():
    shares = [induction_share(loss) for loss in (7.0, 3.0, 1.5, 0.1)]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < 0.1


def test_a_model_writes_amounts_as_it_reads_them():
    plan = "l('back in one minute');2{tc(90);}"
    task = Task("say", "tello", "say back in one minute, then turn two times", "", plan, (), ("same_outcome",))
    assert written_plan(task.plan, task) == "l('back_in_60_s');2{tc(90);}"
    assert written_plan("l('in one hour');", task) == "l('in_one_hour');"  # which nobody said
