# SPDX-License-Identifier: Apache-2.0
import pytest

from lab.tests.training.length.builders import MAX_TOKENS, prompts, save_target
from llm_planner.core.errors import PlannerError
from llm_planner_lab.training.length import collect as module
from llm_planner_lab.training.length.collect import LengthFile, collect_lengths
from llm_planner_lab.training.length.prompts import Prompt


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return save_target(tmp_path_factory.mktemp("targets") / "target")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "lengths.jsonl"


@pytest.fixture
def no_engine(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(module, "build_loop", refuse)


def collect(target, some, path, **options):
    return collect_lengths(target, some, path=path, max_tokens=MAX_TOKENS, threads=1, **options)


def test_lengths_come_from_the_model_and_are_kept(target, path, monkeypatch):
    some, told = prompts(5), []
    lengths = collect(target, some, path, observe=told.append)
    assert list(lengths) == some
    assert all(1 <= n <= MAX_TOKENS for n in lengths.values())
    assert told == [0, 5]
    monkeypatch.setattr(module, "build_loop", None)
    assert collect(target, some, path) == lengths


def test_only_what_is_missing_is_measured(target, path):
    first = collect(target, prompts(2), path)
    told = []
    lengths = collect(target, prompts(4), path, observe=told.append)
    assert told == [2, 4]
    assert {prompt: lengths[prompt] for prompt in first} == first


def test_what_the_model_cannot_serve_has_no_length(target, path):
    too_long = Prompt("tello", "go to all boxes", ", ".join(f"box_{i}" for i in range(200)))
    assert list(collect(target, [too_long, *prompts(1)], path)) == prompts(1)


def test_a_line_that_was_cut_off_is_measured_again(target, path, no_engine):
    file = LengthFile(path, target, MAX_TOKENS)
    file.add(dict.fromkeys(prompts(3), 7))
    path.write_text(path.read_text()[:-9])
    assert LengthFile(path, target, MAX_TOKENS).lengths == dict.fromkeys(prompts(2), 7)
    assert collect(target, prompts(2), path) == dict.fromkeys(prompts(2), 7)


def test_lengths_of_another_model_or_limit_do_not_count(target, tmp_path, path, monkeypatch):
    LengthFile(path, target, MAX_TOKENS).add(dict.fromkeys(prompts(3), 7))
    assert not LengthFile(path, target, MAX_TOKENS + 1).lengths
    LengthFile(path, target, MAX_TOKENS).add(dict.fromkeys(prompts(3), 7))
    other = save_target(tmp_path / "other", seed=5)
    assert not LengthFile(path, other, MAX_TOKENS).lengths
    LengthFile(path, target, MAX_TOKENS).add(dict.fromkeys(prompts(3), 7))
    monkeypatch.setattr(module, "MAX_REPETITION", 60)  # plans that are stuck were stopped earlier
    assert not LengthFile(path, target, MAX_TOKENS).lengths


def test_a_damaged_line_is_named(target, path):
    LengthFile(path, target, MAX_TOKENS).add(dict.fromkeys(prompts(3), 7))
    lines = path.read_text().split("\n")
    path.write_text("\n".join([*lines[:2], "{", *lines[3:]]))
    with pytest.raises(PlannerError, match=r"lengths\.jsonl, line 3"):
        LengthFile(path, target, MAX_TOKENS)
