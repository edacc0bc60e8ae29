# SPDX-License-Identifier: Apache-2.0
"""Fitted durations in a robot's file: only what was fitted changes, and the planner reads it."""

import difflib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("ruamel.yaml")

from llm_planner.core.errors import PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.robots.library import load_robot_model
from llm_planner.robots.timing import Noise, Parameter, Polynomial, Quantiles, Source, Sweeps, Trapezoid, Travel
from llm_planner.sim.physics.profiling.write import with_durations, write_durations

MODELS = share_dir() / "robot_models"
NOISE = Noise(median_s=0.07, sigma=0.5, source=Source.SIMULATED)


def number(value: float) -> Parameter:
    return Parameter(value=value, source=Source.SIMULATED)


MOVE = Trapezoid(latency_s=number(0.31), speed=number(0.9), acceleration=number(1.2), noise=NOISE, num_samples=240)
REACH = Trapezoid(
    latency_s=number(1.5),
    speed=number(0.4),
    acceleration=number(0.8),
    noise=NOISE,
    travel=Travel(minimum=0.1, p50=0.3, p90=0.6, source=Source.SIMULATED),
    num_samples=40,
)
SWEEPS = Sweeps(
    latency_s=number(0.4),
    moving_s=Travel(minimum=1.2, p50=2.1, p90=3.0, source=Source.SIMULATED),
    noise=NOISE,
    num_samples=40,
)
TABLE = Quantiles(table=((0.0, 0.2), (1.0, 9.0)), source=Source.SIMULATED, step_s=number(1.4), num_samples=50)
RISE = Polynomial(coefficients=(1.7,), source=Source.SIMULATED, noise=NOISE, num_samples=30)


def test_skills_that_share_an_anchor_change_together_and_what_merges_follows(tmp_path: Path):
    fits = {**dict.fromkeys(("mf", "mb", "ml", "mr", "mu", "md"), MOVE), "s": TABLE, "sa": TABLE, "tk": RISE}
    write_durations(MODELS / "tello.yaml", tmp_path / "tello.yaml", fits)
    before, after = load_robot_model(MODELS / "tello.yaml"), load_robot_model(tmp_path / "tello.yaml")
    assert {after.skills[name].duration for name in ("mf", "mu", "md")} == {MOVE}
    assert after.skills["s"].duration == TABLE
    assert after.skills["tk"].duration == RISE
    approach = after.skills["a"].duration
    assert isinstance(approach, Trapezoid)
    assert (approach.speed, approach.travel) == (MOVE.speed, before.skills["a"].duration.travel)
    for name in ("tc", "iv", "d", "l", "ld"):
        assert after.skills[name] == before.skills[name]
    assert (after.body, after.geofence, after.examples) == (before.body, before.geofence, before.examples)


@pytest.mark.parametrize("fit", [REACH, SWEEPS])
def test_another_kind_of_model_takes_the_place_of_the_old_one(tmp_path: Path, fit):
    write_durations(MODELS / "indy7.yaml", tmp_path / "indy7.yaml", {"pick": fit, "home": fit})
    after = load_robot_model(tmp_path / "indy7.yaml")
    assert after.skills["pick"].duration == fit
    assert after.skills["move_to"].duration == fit  # shares home's


@pytest.mark.parametrize("name", ["tello", "indy7"])
def test_comments_and_order_stay(name: str):
    text = (MODELS / f"{name}.yaml").read_text(encoding="utf-8")
    skill = "mf" if name == "tello" else "pick"
    changed = with_durations(text, {skill: MOVE})
    lines = list(difflib.unified_diff(text.splitlines(), changed.splitlines(), lineterm="", n=0))
    assert len(lines) < 20, lines
    assert changed.count("#") == text.count("#")
    assert all(
        line.count("{") == line.count("}") for line in changed.splitlines()
    )  # nothing inside a flow is broken up
    assert "num_samples: 240" in changed
    assert with_durations(changed, {skill: MOVE}) == changed


def test_what_was_said_of_numbers_that_are_gone_goes():
    text = (MODELS / "tello.yaml").read_text(encoding="utf-8")
    changed = with_durations(text, {"s": TABLE, "sa": TABLE, "mf": MOVE})
    assert "eight steps of 45 degrees" in text
    assert "eight steps of 45 degrees" not in changed
    assert changed.count("from command to motion") == text.count("from command to motion")


def test_what_the_planner_could_not_read_is_not_written(tmp_path: Path):
    with pytest.raises(PlannerError, match="make them equal"):
        write_durations(MODELS / "tello.yaml", tmp_path / "drone.yaml", {"mf": MOVE})
    with pytest.raises(PlannerError, match="exceeds its limit"):
        write_durations(MODELS / "tello.yaml", tmp_path / "tello.yaml", {"mf": replace(MOVE, speed=number(2.0))})
    assert not list(tmp_path.iterdir())


def test_a_model_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, link = tmp_path / "mine" / "tello.yaml", tmp_path / "tello.yaml"
    model.parent.mkdir()
    shutil.copy(MODELS / "tello.yaml", model)
    link.symlink_to(model)
    written, write = [], Path.write_text

    def noted(path: Path, text: str, **options: str) -> int:
        written.append(path)
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", noted)
    write_durations(link, link, {"mf": MOVE})
    assert not {model, link} & set(written)  # it would be cut where the disk is full
    assert link.is_symlink()
    assert load_robot_model(model).skills["mf"].duration == MOVE
    assert list(model.parent.iterdir()) == [model]
