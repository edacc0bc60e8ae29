# SPDX-License-Identifier: Apache-2.0
import os
import pickle
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.core.skill import Late, SkillCall
from llm_planner.robots.library import RobotLibrary, load_robot_model
from llm_planner.robots.model import ReturnType

TELLO = share_dir() / "robot_models" / "tello.yaml"

CATALOGUE = {
    "tello": {
        "mf": "move_forward",
        "mb": "move_backward",
        "ml": "move_left",
        "mr": "move_right",
        "mu": "move_up",
        "md": "move_down",
        "tc": "turn_cw",
        "tu": "turn_ccw",
        "tk": "takeoff",
        "ld": "land",
        "h": "stop",
        "d": "delay",
        "iv": "is_visible",
        "ox": "object_x",
        "oy": "object_y",
        "ow": "object_width",
        "oh": "object_height",
        "od": "object_distance",
        "s": "scan",
        "sa": "scan_abstract",
        "o": "orient",
        "a": "approach",
        "g": "goto",
        "home": "",
        "l": "log",
        "p": "probe",
        "tp": "take_picture",
        "rp": "replan",
    },
    "indy7": {
        **dict.fromkeys(("pick", "place", "push", "move_to", "home", "open", "close", "wait", "say", "stop"), ""),
        "iv": "is_visible",
    },
}


def edited(tmp_path, old, new, name="tello", original=TELLO):
    """Returns the path of a copy of a robot model in which one piece of text is replaced."""
    text = original.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def refusal(path):
    with pytest.raises(PlannerError) as raised:
        load_robot_model(path)
    assert raised.value.code is ErrorCode.INVALID_ROBOT_MODEL
    assert str(path) in raised.value.message
    return raised.value.message


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_bundled_models_hold_the_whole_skill_catalogue(name):
    model = RobotLibrary().get(name)
    assert {skill.name: skill.alias for skill in model.skills.values()} == CATALOGUE[name]


def test_values_arrive_as_declared():
    model = RobotLibrary().get("tello")
    forward = model.skill("move_forward")
    assert forward is model.skills["mf"]
    assert forward.effect.axis == (1, 0, 0)
    assert (forward.number.minimum, forward.number.maximum, forward.number.unit) == (20, 500, "cm")
    assert model.skills["iv"].returns is ReturnType.BOOLEAN
    assert model.skill("fly_to_the_moon") is None
    assert pickle.loads(pickle.dumps(model)) == model


def test_a_skill_tells_the_things_of_a_call():
    place, say = (RobotLibrary().get("indy7").skills[name] for name in ("place", "say"))
    assert place.names_in(SkillCall("place", ("cup", Late("_1")))) == ["cup", "_1"]
    assert say.names_in(SkillCall("say", ("hello",))) == []


def test_the_path_of_an_adapter_begins_at_the_file(tmp_path, monkeypatch):
    assert load_robot_model(TELLO).adapter is None
    monkeypatch.setenv("HOME", "/ada")
    for given, expected in {
        "adapters/tello": str(tmp_path / "adapters" / "tello"),
        "/opt/adapters/tello": "/opt/adapters/tello",
        "~/tello": "/ada/tello",
    }.items():
        path = edited(tmp_path, "name: tello", f"name: tello\nadapter: {given}")
        assert load_robot_model(path).adapter == expected


def test_unknown_model_lists_the_known():
    for name in ("r2d2", "", "../tello", "tello.yaml"):
        with pytest.raises(PlannerError, match="indy7, tello") as raised:
            RobotLibrary().get(name)
        assert raised.value.code is ErrorCode.UNKNOWN_ROBOT_MODEL


def test_a_directory_that_is_not_there_is_refused(tmp_path, monkeypatch):
    """The bundled robot of the same name would be taken, with its fence and its speeds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for given, where in (("nowhere", f"looked in {tmp_path}"), ("file", "robot_models is relative"), ("/nowhere", "")):
        with pytest.raises(PlannerError, match=f"{given} is no directory.*{where}") as raised:
            RobotLibrary([Path(given)])
        assert raised.value.code is ErrorCode.INVALID_CONFIG


def test_own_directory_comes_before_the_bundled_one(tmp_path):
    edited(tmp_path, "a small indoor drone with a camera that looks forward", "mine")
    shutil.copy(TELLO, tmp_path / "broken.yaml")
    library = RobotLibrary([tmp_path])
    assert library.get("tello").description == "mine"
    assert library.names() == ("broken", "indy7", "tello")
    with pytest.raises(PlannerError, match="make them equal"):
        library.get("broken")


def test_what_is_no_file_or_hidden_is_no_model(tmp_path):
    (tmp_path / ".#rover.yaml").symlink_to("ada@host.1234")  # as Emacs locks a file
    (tmp_path / ".hidden.yaml").touch()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "directory.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "tello.yaml").mkdir()
    library = RobotLibrary([tmp_path])
    assert library.names() == ("indy7", "tello")
    assert library.path_of("tello") == TELLO
    for name in ("gone", ".#rover", "directory", "pipe"):
        with pytest.raises(PlannerError, match="known are: indy7, tello"):
            library.path_of(name)


@pytest.mark.parametrize("start", ["x_m: 0.1, y_m: 0.0", "x_m: 0.6, y_m: 0.6", "x_m: 0.35, y_m: 0.0, z_m: 0.95"])
def test_an_arm_starts_inside_its_workspace(tmp_path, start):
    old = "x_m: 0.35, y_m: 0.0, z_m: 0.45" if "z_m" in start else "x_m: 0.35, y_m: 0.0"
    path = edited(tmp_path, old, start, name="indy7", original=TELLO.with_name("indy7.yaml"))
    assert "outside the workspace" in refusal(path)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("unit_m: 0.01}, dur", "unit_m: 0.01, speed: 3}, dur", "speed: there is no such key; known are kind, axis,"),
        ("range_m: ", "rang_m: ", "camera.rang_m: there is no such key; did you mean range_m?"),
        ("axis: [1, 0, 0]", "axis: 1", "skills.mf.effect.translate.axis: give a list: [1]"),
        ("{kind: land}", "{kind: sink}", "skills.ld.effect: there is no kind 'sink'; known are 'translate', 'turn',"),
        ("{kind: land}", "{kin: land}", "skills.ld.effect: write {kind: ...} and its other keys"),
        ("&speed {value: 1.0, source: published}", "&speed 1.0", "speed: write {value: 1.0, source: measured}"),
        ("start: {x_m", "start: 3 #", "start: give it keys: x_m, y_m, z_m, yaw_deg"),
        ("effect: {kind: land}", "effect: land", "skills.ld.effect: write {kind: ...} and its other keys"),
        ("unit_m: 0.01}, dur", "unit_m: 1}, dur", "unit: cm of the argument contradicts unit_m: 1 of the effect"),
        ("stop_skill: h", "stop_skil: h", "stop_skil"),
        ("start: {x_m: 0.0, y_m: 0.0, z_m: 1.0", "start: {x_m: 50.0, y_m: 0.0, z_m: 0.0", "the start pose is outside"),
        ("start: {x_m: 0.0, y_m: 0.0, z_m: 1.0", "start: {x_m: 0.0, y_m: 0.0, z_m: 0.0", "effect home flies"),
        ("kind: drone", "kind: submarine", "kind: "),
        ("minimum: 20", "minimum: .nan", "skills.mf.arguments.0.minimum"),
        ("minimum: 20", "minimum: '20'", "skills.mf.arguments.0.minimum"),
        ("minimum: 20", "minimum: 900", "minimum must be <= maximum"),
        ("minimum: 20, maximum: 500", "minimum: 5.2, maximum: 5.8, is_integer: true", "no whole number lies between"),
        ("urgent: {skills: [", "urgent: {skills: [] } # [", "an emergency needs skills"),
        ("urgent: {skills: [", "urgent: {skills: [g, ", "urgent: 'g' (effect goto) goes to a thing, looks for it"),
        ("urgent: {skills: [", "urgent: {skills: [s, ", "urgent: 's' (effect scan) goes to a thing, looks for it"),
        ("after_s: 60.0", "after_s: 60000", "after_s must be in (0, 600]; it is in seconds"),
        ("maximum: 500, ", "", "a number needs minimum and maximum"),
        ("axis: [1, 0, 0]", "axis: [1, 1, 0]", "axis must have length 1"),
        ("alias: move_backward", "alias: move_forward", "move_forward"),
        ("stop_skill: h", "stop_skill: halt", "stop_skill: 'halt' is not among the skills (mf, mb, ml,"),
        ("stop_skill: h", "stop_skill: mf", "stop_skill: skill 'mf' must take no arguments"),
        ("stop_skill: h", "stop_skill: tk", "stop_skill: skill 'tk' must have one of the effects stop, land"),
        ("skill: ld", "skill: tk", "silence: skill 'tk' must have one of the effects stop, land, home"),
        ("skill: ld", "skill: explode", "silence: 'explode' is not among the skills (mf, mb, ml,"),
        ("skill: ld", "skill: mf", "silence: skill 'mf' must take no arguments"),
        ("z_m: 1.0, yaw", "z_m: 9.0, yaw", "outside the geofence"),
        ("coefficients: [0.0, 1.0]", "coefficients: [-0.5, 1.0]", "skill d: the polynomial is negative within [0, "),
        ("coefficients: [3.5]", "coefficients: [-3.5]", "the polynomial is negative within [0, 0]"),
        ("altitude_m: 1.0", "altitude_m: 4.0", "skill tk: altitude_m is outside the geofence"),
        ("{kind: land}", "{kind: grasp}", "effect grasp needs 1 name or text argument(s)"),
        ("{kind: land}", "{kind: gripper, is_open: true}", "skill ld: a robot of kind drone cannot gripper"),
        ("kind: drone", "kind: ground", "skill tk: a robot of kind ground cannot takeoff"),
        ("\ncamera: ", "\n# camera: ", "skill ox: effect perceive needs a camera"),
        ("speed: &speed {value: 1.0", "speed: &speed {value: 2.0", "speed exceeds its limit"),
        ("source: published} # Tello", "source: rumour} # Tello", "source"),
        ("name: tello", "name: tello\nname: tello", "appears twice"),
        ("name: tello", "name: [tello", "cannot be read as YAML"),
        ("geofence: {", "gone: {", "gone"),
        ("  mf: {alias", "  9mf: {alias", "'9mf' is not an ASCII identifier"),
        ("  mf: {alias", "  _mf: {alias", "'_mf' is reserved"),
        ("name: tello", "name: tello\nadapter: ' '", "adapter must name a directory"),
        ("name: tello", "name: tello\nadapter: 3", "adapter"),
        ("name: tello", "name: tello\nadapter: [a]", "adapter"),
        ("name: tello", 'name: tello\nadapter: "a\\0b"', "adapter: 'a\\x00b' is no path"),
        ("name: tello", "name: tello\nadapter: ~nobody_of_this_name/a", "adapter: '~nobody_of_this_name/a' is no path"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_path(tmp_path, old, new, expected):
    assert expected in refusal(edited(tmp_path, old, new))


def test_no_drone_flies_below_the_floor(tmp_path):
    """A body is too large for such a fence as well, but a model needs none."""
    path = edited(tmp_path, "z_m: [0.2, 3.0]", "z_m: [-0.2, 3.0]")
    text = path.read_text()
    path.write_text(text[: text.index("\nbody:")] + text[text.index("\nrules:") :])
    assert "a drone's fence must not begin below the floor: z_m is [-0.2, 3]" in refusal(path)


@pytest.mark.parametrize(
    "content", [b"", b"- 1", b"\xff\xfe\x00", b"a: &a [*a]", b"!!python/object/apply:os.getcwd []"]
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "tello.yaml"
    path.write_bytes(content)
    refusal(path)


def test_a_missing_and_a_huge_file_are_refused(tmp_path):
    refusal(tmp_path / "absent.yaml")
    path = tmp_path / "tello.yaml"
    path.write_bytes(b"#" * 1_000_001)
    assert "larger" in refusal(path)


@pytest.mark.parametrize(
    ("unit", "unit_m", "is_accepted"),
    [
        ("m", 1.0, True),
        ("mm", 0.001, True),
        ("in", 0.0254, True),
        ("", 0.5, True),
        ("m", 0.01, False),
        ("cm", 1.0, False),
    ],
)
def test_a_unit_that_is_shown_is_the_unit_that_is_flown(unit, unit_m, is_accepted):
    forward = load_robot_model(TELLO).skills["mf"]
    changes = {
        "arguments": (replace(forward.arguments[0], unit=unit),),
        "effect": replace(forward.effect, unit_m=unit_m),
    }
    with nullcontext() if is_accepted else pytest.raises(ValueError, match=f"unit: {unit} .* unit_m: {unit_m:g}"):
        replace(forward, **changes)
