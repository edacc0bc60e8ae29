# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from lab.tests.training.length.builders import prompts, write_prompts
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.planning.scene_entries import entries_of
from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, corpus, of_authors
from llm_planner_lab.tasks.sample import FAMILY_NAMES
from llm_planner_lab.tasks.spoken import Speaker
from llm_planner_lab.training.length import prompts as prompts_module
from llm_planner_lab.training.length.prompts import (
    MIN_PROMPTS,
    Prompt,
    generate_prompts,
    inventory_prompts,
    read_prompts,
)

ROBOTS = ("tello", "indy7")


def test_generated_prompts_repeat_with_the_seed_and_overlap_nowhere():
    parts = generate_prompts(60, 20, seed=3)
    assert (len(parts.train), len(parts.calibration), len(parts.test)) == (60, 20, 20)
    assert len(set(parts.all)) == 100
    assert generate_prompts(60, 20, seed=3) == parts
    assert generate_prompts(60, 20, seed=4) != parts


@pytest.fixture
def drawn(monkeypatch):
    """All tasks that are drawn of templates and of sentences, by whether they are held out."""
    tasks = {(of, is_held_out): [] for of in ("templates", "sentences") for is_held_out in (False, True)}
    draw, speak = prompts_module.sample, Speaker.sample
    held_out_frames = set(of_authors(corpus(), HELD_OUT_AUTHORS))

    def drawing(rng, difficulty, **options):
        tasks["templates", options["held_out"]].append(task := draw(rng, difficulty, **options))
        return task

    def speaking(speaker, rng):
        are_held_out = {frame in held_out_frames for frames in speaker.frames.values() for frame in frames}
        (is_held_out,) = are_held_out
        tasks["sentences", is_held_out].append(task := speak(speaker, rng))
        return task

    monkeypatch.setattr(prompts_module, "sample", drawing)
    monkeypatch.setattr(Speaker, "sample", speaking)
    return tasks


def test_inventories_are_long_and_their_parts_have_sentences_of_their_own():
    parts = inventory_prompts(30, 10, seed=3)
    assert (len(parts.train), len(parts.calibration), len(parts.test)) == (30, 10, 10)
    assert inventory_prompts(30, 10, seed=3) == parts
    assert all(prompt.scene.count(",") > 140 for prompt in parts.all)
    assert len(set(parts.all)) == 50


def test_half_are_sentences_and_every_family_of_templates_is_among_the_training_prompts(drawn):
    parts = generate_prompts(6 * len(FAMILY_NAMES), 10, seed=0)
    assert {task.family for task in drawn["templates", False]} == set(FAMILY_NAMES)
    assert len(set(parts.train)) == len(parts.train) == 6 * len(FAMILY_NAMES)
    prompts_of = {
        key: {Prompt(task.robot, task.instruction, task.scene) for task in tasks} for key, tasks in drawn.items()
    }
    assert len(set(parts.train) & prompts_of["sentences", False]) == len(parts.train) // 2
    held_out = set(parts.calibration) | set(parts.test)
    assert held_out <= prompts_of["templates", True] | prompts_of["sentences", True]
    assert len(held_out & prompts_of["sentences", True]) == 10
    assert not held_out & set(parts.train)


def test_many_of_the_training_prompts_have_crowded_scenes():
    train = generate_prompts(1200, 10, seed=0).train
    crowded = [prompt for prompt in train if len(entries_of(prompt.scene)) >= 40]
    assert 0.05 < len(crowded) / len(train) < 0.25


def test_a_file_is_split_into_parts_that_overlap_nowhere(tmp_path):
    some = prompts(50)
    path = write_prompts(tmp_path / "p.jsonl", [*some, *some])
    parts = read_prompts(path, ROBOTS, seed=0)
    assert (len(parts.train), len(parts.calibration), len(parts.test)) == (40, 5, 5)
    assert set(parts.all) == set(some)
    assert read_prompts(path, ROBOTS, seed=0) == parts
    assert read_prompts(path, ROBOTS, seed=1) != parts


def test_the_scene_may_be_left_out_and_empty_lines_do_not_count(tmp_path):
    path = write_prompts(tmp_path / "p.jsonl", prompts(MIN_PROMPTS))
    path.write_text('\n{"robot": "indy7", "instruction": "go home"}\n\n' + path.read_text())
    assert Prompt("indy7", "go home", "") in read_prompts(path, ROBOTS, seed=0).all


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "no JSON"),
        ("[1]", "expected an object"),
        ('{"robot": "tello", "instruction": 3}', "expected an object"),
        ('{"robot": "tello", "instruction": "go", "speed": "fast"}', "'speed'"),
        ('{"robot": "r2d2", "instruction": "go"}', "'r2d2'"),
        ('{"instruction": "go"}', "robot None"),
        ('{"robot": "tello", "instruction": "  "}', "instruction is empty"),
        ('{"robot": "tello"}', "instruction is empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, named):
    path = write_prompts(tmp_path / "p.jsonl", prompts(MIN_PROMPTS))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(PlannerError, match=f"line {MIN_PROMPTS + 1}: ") as caught:
        read_prompts(path, ROBOTS, seed=0)
    assert caught.value.code is ErrorCode.INVALID_FILE
    assert named in caught.value.message


@pytest.mark.parametrize("content", ["", json.dumps({"robot": "tello", "instruction": "go"}) + "\n" * 3])
def test_too_few_prompts_are_refused(tmp_path, content):
    path = tmp_path / "p.jsonl"
    path.write_text(content)
    with pytest.raises(PlannerError, match="different prompts"):
        read_prompts(path, ROBOTS, seed=0)


def test_a_missing_or_binary_file_is_named(tmp_path):
    for path in (tmp_path / "none.jsonl", tmp_path / "binary.jsonl"):
        (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(PlannerError, match=str(path)):
            read_prompts(path, ROBOTS, seed=0)
