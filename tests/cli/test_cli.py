# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: what it prints and its exit status."""

import gc
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llm_planner.cli import fleet
from llm_planner.cli.main import app, main
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.network import PROFILE, PROFILE_VARIABLES

runner = CliRunner()
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "planner.json"}


@pytest.fixture(autouse=True)
def _thaw():
    yield
    gc.unfreeze()


def run_json(*arguments):
    result = runner.invoke(app, [*arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, json.loads(result.stdout)


def test_help_names_every_command():
    output = runner.invoke(app, ["--help"]).stdout
    for command in ("plan", "check", "robots", "up", "send", "top", "demo", "doctor"):
        assert command in output


def test_check_admits_a_good_plan():
    status, answer = run_json("check", "mf(50);tc(90);", "--robot", "tello")
    assert status == 0
    assert answer["error_code"] == 0
    assert [segment["text"] for segment in answer["segments"]] == ["mf(50);", "tc(90);"]
    assert 0 < answer["expected_s"]["min_s"] <= answer["expected_s"]["p50_s"] <= answer["expected_s"]["p90_s"]


@pytest.mark.parametrize(
    ("plan", "code", "num_segments"),
    [
        ("mf(50);fly(3);", ErrorCode.UNKNOWN_SKILL, 1),
        ("mf(9999);", ErrorCode.ARGUMENT_OUT_OF_RANGE, 0),
        ("mf(50);mf((;", ErrorCode.PLAN_SYNTAX, 1),
        ("", ErrorCode.EMPTY_PLAN, 0),
        ("9{mf(500);}", ErrorCode.GEOFENCE_VIOLATED, 0),
        ("mf('far');", ErrorCode.INVALID_ARGUMENT, 0),
    ],
)
def test_check_refuses_with_the_code_and_keeps_what_came_before(plan, code, num_segments):
    status, answer = run_json("check", plan, "--robot", "tello")
    assert (status, answer["error_code"], len(answer["segments"])) == (1, code, num_segments)
    assert answer["error_msg"]


def test_check_knows_the_arm():
    status, answer = run_json("check", "pick(red_box)->place(red_box,bin)", "--robot", "indy7")
    assert (status, len(answer["segments"])) == (0, 2)


@pytest.mark.parametrize("plan", ["fly forward", "turn left 90 degrees", "mf(50"])
def test_check_says_what_a_plan_is(plan):
    status, answer = run_json("check", plan)
    assert (status, answer["error_code"]) == (1, ErrorCode.PLAN_SYNTAX)
    assert "mf(50);tc(90); (docs/plan_language.md); for words use `llm-planner plan`" in answer["error_msg"]


@pytest.mark.parametrize("command", [["check"], ["robots", "try"]])
def test_brackets_of_a_plan_are_shown_as_they_are(command):
    plan = "l('[red]stop[/red] at [A1] [/b]');"
    if command == ["robots", "try"]:
        pytest.importorskip("mujoco")
    result = runner.invoke(app, [*command, plan], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert plan in result.stdout


def test_check_refuses_a_directory_of_models_that_is_not_there():
    result = runner.invoke(app, ["check", "mf(50);", "--models", "nowhere"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG


def test_an_unknown_robot_lists_the_known_ones():
    result = runner.invoke(app, ["check", "mf(50);", "--robot", "submarine"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.UNKNOWN_ROBOT_MODEL
    assert "tello" in str(result.exception)


def test_robots_lists_models_and_skills():
    assert {"tello", "indy7"} <= {model["name"] for model in run_json("robots")[1]}
    skills = {skill["name"] for skill in run_json("robots", "tello")[1]["skills"]}
    assert {"mf", "tc", "s", "iv", "l"} <= skills
    assert "move_forward" in runner.invoke(app, ["robots", "tello"], env={"COLUMNS": "200"}).stdout


def test_plan_with_the_scripted_backend_ends_with_its_metrics(tmp_path):
    config = tmp_path / "fake.yaml"
    config.write_text("backend: fake\n", encoding="utf-8")
    status, answer = run_json("plan", "anything", "--config", str(config))
    assert (status, answer["error_code"]) == (0, 0)
    assert answer["plan"] == "".join(segment["text"] for segment in answer["segments"]) != ""
    assert answer["metrics"]["num_output_tokens"] > 0


@pytest.mark.parametrize(
    ("text", "options", "policy", "temperature"),
    [
        ("", [], "fcfs_stream", 0.0),
        ("scheduler: {policy: pud}\ntemperature: 0.7\n", [], "pud", 0.7),
        ("scheduler: {policy: pud}\n", ["--policy", "fcfs", "--temperature", "0.2"], "fcfs", 0.2),
    ],
)
def test_plan_takes_policy_and_temperature_of_its_file_unless_they_are_given(
    tmp_path, monkeypatch, text, options, policy, temperature
):
    config, settings = tmp_path / "fake.yaml", []
    config.write_text(f"backend: fake\n{text}", encoding="utf-8")
    monkeypatch.setattr("llm_planner.assembly.build_loop", lambda given, **_: settings.append(given) or StuckLoop())
    runner.invoke(app, ["plan", "go up", "--config", str(config), *options])
    assert [(given.scheduler.policy, given.temperature) for given in settings] == [(policy, temperature)]


class StuckLoop:
    """Has lost the goal."""

    is_closed = False

    def submit(self, *_):
        self.num_frozen = gc.get_freeze_count()
        return []

    def next_wakeup_s(self, _):
        return None

    def step(self, _):
        return []

    def close(self):
        self.is_closed = True


@pytest.mark.timeout(60)
def test_plan_does_not_wait_for_what_will_never_come(monkeypatch):
    loop, before = StuckLoop(), gc.get_freeze_count()
    monkeypatch.setattr("llm_planner.assembly.build_loop", lambda *_, **__: loop)
    result = runner.invoke(app, ["plan", "go up", "--json"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.ENGINE_FAILED
    assert loop.is_closed
    assert loop.num_frozen > before + 1000  # no collection looks at what was loaded while it plans


def test_a_chat_is_answered_in_sentences_or_paragraphs(tmp_path):
    config = tmp_path / "fake.yaml"
    config.write_text("backend: fake\nchat_segments: paragraph\n", encoding="utf-8")
    arguments = ("plan", "exactly: I am a drone. I can fly.", "--chat", "--config", str(config))
    status, answer = run_json(*arguments)
    assert (status, answer["error_code"]) == (0, 0)
    assert [segment["text"] for segment in answer["segments"]] == ["I am a drone. I can fly."]
    status, answer = run_json(*arguments, "--chat-segments", "sentence")
    assert [segment["text"] for segment in answer["segments"]] == ["I am a drone. ", "I can fly."]


def test_plan_closes_a_plan_in_time(tmp_path):
    config = tmp_path / "fake.yaml"
    config.write_text("backend: fake\n", encoding="utf-8")
    plan = "tp();" * 200  # 4 s of steps
    arguments = ("plan", f"exactly: {plan}", "--config", str(config), "--budget", "2.0")
    status, answer = run_json(*arguments, "--overrun", "partial")
    assert (status, answer["error_code"]) == (3, ErrorCode.PLAN_PARTIAL)
    assert plan.startswith(answer["plan"])
    assert 0 < len(answer["plan"]) < len(plan)
    assert answer["metrics"]["plan_time_s"] <= 2.0
    status, answer = run_json(*arguments, "--budget-scope", "whole-plan")  # kill, but no whole plan was guaranteed
    assert (status, answer["error_code"]) == (3, ErrorCode.PLAN_PARTIAL)
    assert "token_cap" in answer["metrics"]["measures"]


@pytest.mark.parametrize(
    ("instruction", "code"),
    [("   ", ErrorCode.EMPTY_INSTRUCTION), ("x" * 100_000, ErrorCode.INSTRUCTION_TOO_LONG)],
)
def test_plan_refuses_a_bad_instruction_before_loading_anything(instruction, code):
    result = runner.invoke(app, ["plan", instruction, "--model", "no-such-model"])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is code


@pytest.mark.parametrize("budget_s", ["-1", "nan", "inf"])
def test_send_refuses_what_is_no_time_budget(budget_s):
    result = runner.invoke(app, ["send", "drone_1", "go up", "--time-budget", budget_s])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_TIME_BUDGET


@pytest.mark.ros
@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        (None, ErrorCode.INVALID_FILE, "world.yaml"),
        ("objects: [", ErrorCode.INVALID_FILE, "cannot be read as YAML"),
        ("{}", ErrorCode.INVALID_WORLD, "objects: Field required"),
        ("objects: [{name: cup, position_m: [1, 2, .inf]}]", ErrorCode.INVALID_WORLD, "objects.0.position_m"),
    ],
)
def test_send_refuses_a_world_that_no_robot_takes_before_it_looks_for_one(tmp_path, text, code, part):
    path = tmp_path / "world.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    error = runner.invoke(app, ["send", "drone_1", "fly to the cup", "--world", str(path)]).exception
    assert isinstance(error, PlannerError)
    assert (error.code, part in error.message) == (code, True)


def test_send_names_the_overrun_strategies():
    result = runner.invoke(app, ["send", "drone_1", "go up", "--overrun", "never"])
    assert result.exit_code == 2
    assert "skip-next" in result.output


@pytest.mark.ros
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"drones": 1, "arms": 1}, 'llm-planner send drone_1 "fly 1 m forward'),
        ({"drones": 2, "arms": 0, "world": "house"}, 'llm-planner send drone_1 "fly up'),  # forward is drone_2
        ({"drones": 2, "arms": 0, "tellos": ("127.0.0.11",)}, 'llm-planner send drone_1 "fly 1 m forward'),
        ({"drones": 2, "arms": 0, "tellos": ("192.168.10.1",)}, 'llm-planner send drone_1 "take off"'),  # on the floor
        ({"drones": 0, "arms": 1, "world": "house"}, 'llm-planner send arm_1 "go home"'),
        ({"drones": 0, "arms": 0}, "llm-planner robot drone_1 --network host"),
    ],
)
def test_up_says_what_could_be_typed_next(given, said):
    from llm_planner.ros.composition import Composition, World
    from llm_planner.ros.network import Network

    world = World(given["world"]) if "world" in given else None
    assert said in fleet._next_step(Composition(**given | {"world": world}), Network.HOST)


@pytest.mark.ros
@pytest.mark.parametrize(("name", "said"), [("run.mcap", "exists"), ("nowhere/run.mcap", "there is no directory")])
def test_up_records_only_to_a_file_that_it_can_make(name, said, tmp_path, monkeypatch):
    (tmp_path / "run.mcap").touch()
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda *_, **__: 1 / 0)
    error = runner.invoke(app, ["up", "--record", str(tmp_path / name)]).exception
    assert error.code is ErrorCode.INVALID_FILE
    assert said in error.message


def test_a_picture_of_no_world_is_refused(tmp_path):
    pytest.importorskip("mujoco")
    error = runner.invoke(app, ["worlds", "--picture", str(tmp_path / "w.png")]).exception
    assert error.code is ErrorCode.INVALID_CONFIG
    assert "name it" in error.message


def test_what_is_sent_is_a_chat_or_urgent():
    error = runner.invoke(app, ["send", "drone_1", "hello", "--chat", "--urgent"]).exception
    assert error.code is ErrorCode.INVALID_CONFIG


@pytest.mark.ros
def test_up_refuses_a_directory_of_models_that_is_not_there(tmp_path):
    config = tmp_path / "my_planner.yaml"
    config.write_text("robot_models: [nowhere]\n", encoding="utf-8")
    result = runner.invoke(app, ["up", "--config", str(config)])
    assert isinstance(result.exception, PlannerError)
    assert "nowhere is no directory" in result.exception.message


@pytest.mark.ros
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--emulate", "2", "--drones", "1"], "--drones 2"),
        (["--tello", "192.168.10.1", "--emulate", "1"], "--tello and --emulate"),
        (["--time-scale", "2000"], "time_scale is 2000; give a number from 0.01 to 1000"),
        (
            ["--tello", "192.168.10.1", "--tello", "notanip"],
            "--tello: Expected 4 octets in 'notanip'; give one such as",
        ),
        (["--backend", "openai", "--base-url", "localhost:8000"], "openai.base_url is 'localhost:8000'; give an"),
        (["--sim", "mujoco", "--world", "table", "--drones", "4"], "world table has places for 2 drones"),
        (["--sim", "mujoco", "--world", "moon", "--drones", "0", "--arms", "0"], "no world 'moon'"),
    ],
)
def test_up_refuses_what_cannot_be_before_it_starts_anything(arguments, said, monkeypatch):
    if "mujoco" in arguments:
        pytest.importorskip("mujoco")
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda *_, **__: 1 / 0)
    result = runner.invoke(app, ["up", *arguments])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG
    assert said in result.exception.message


@pytest.mark.ros
def test_up_hands_on_what_a_plain_file_and_the_options_say(tmp_path, monkeypatch):
    handed = {}
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda commands, **_: handed.update(commands) or 1 / 0)
    (config := tmp_path / "my_planner.yaml").write_text("backend: fake\nengine: {num_threads: 1}\n", encoding="utf-8")
    record = tmp_path / "Flight #3.mcap"
    options = ["--config", str(config), "--model", "8", "--metrics-port", "9400", "--record", str(record)]
    runner.invoke(app, ["up", *options])
    expected = ['backend:="fake"', "engine.num_threads:=1", 'engine.model:="8"', "metrics_port:=9400"]
    assert [word for word in handed["planner"] if ":=" in word] == expected
    assert handed["recorder"][-1] == f'path:="{record}"'


@pytest.mark.ros
@pytest.mark.parametrize(
    ("arguments", "module", "expected"),
    [
        (["robot", "r5", "--driver", "mod:Class", "--address", "12"], "robot_node", ['address:="12"']),
        (["robot", "r5", "--models", "/m,z", "--models", "/it's # x"], "robot_node", ['["/m,z", "/it\'s # x"]']),
        (["robot", "r5", "--time-scale", "2", "--take-off"], "robot_node", ["time_scale:=2.0", "take_off:=true"]),
        (["dashboard", "--host", "0.0.0.0 # x"], "dashboard_node", ['host:="0.0.0.0 # x"', "port:=8080"]),
        (["dashboard", "--allow-host", "a", "--allow-host", "1"], "dashboard_node", ['allow_hosts:=["a", "1"]']),
    ],
)
def test_a_node_is_given_texts_in_quotes(arguments, module, expected, monkeypatch):
    words = []
    monkeypatch.setattr(f"llm_planner.ros.{module}.main", lambda given: words.extend(given) or 0)
    assert runner.invoke(app, arguments).exit_code == 0
    assert all(any(word.endswith(end) for word in words) for end in expected)


@pytest.mark.ros
def test_a_demo_that_cannot_write_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda *_, **__: 1 / 0)
    (path := tmp_path / "a_file").touch()
    error = runner.invoke(app, ["demo", "--out", str(path)]).exception
    assert isinstance(error, PlannerError)
    assert error.message == f"{path} cannot be written: Not a directory"


@pytest.mark.ros
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--model", "nix"], ErrorCode.MODEL_NOT_FOUND), (["--policy", "nix"], ErrorCode.INVALID_CONFIG)],
)
def test_a_demo_that_cannot_be_starts_nothing(arguments, code, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda *_, **__: 1 / 0)
    error = runner.invoke(app, ["demo", "--out", str(out := tmp_path / "out"), *arguments]).exception
    assert isinstance(error, PlannerError)
    assert (error.code, out.exists()) == (code, False)


@pytest.mark.ros
def test_up_names_the_robots_of_a_scenario_that_are_not_started(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner.ros.composition.Fleet", lambda *_, **__: 1 / 0)  # nothing is started
    (path := tmp_path / "sc.yaml").write_text("drone_9: [{instruction: go}]\n", encoding="utf-8")
    result = runner.invoke(app, ["up", "--drones", "2", "--arms", "0", "--scenario", str(path)])
    assert f"warning: {path} tells robots that are not started: drone_9; started: drone_1, drone_2" in result.output


@pytest.mark.ros
@pytest.mark.parametrize(
    ("given", "arguments", "profile"),
    [
        ({}, [], None),
        ({}, ["--network", "host"], str(PROFILE)),
        ({PROFILE_VARIABLES[0]: str(PROFILE)}, ["--network", "subnet"], None),
    ],
)
def test_a_robot_stays_on_its_host_on_request(given, arguments, profile, monkeypatch):
    from llm_planner.ros import robot_node

    seen = {}
    environment = {name: value for name, value in os.environ.items() if name not in PROFILE_VARIABLES}
    monkeypatch.setattr(os, "environ", environment | given)
    monkeypatch.setattr(robot_node, "main", lambda _: seen.update(os.environ) or 0)
    result = runner.invoke(app, ["robot", "rover_1", *arguments])
    assert result.exit_code == 0, result.output
    assert {seen.get(name) for name in PROFILE_VARIABLES} == {profile}
    assert ("can be reached" in result.output) == bool(arguments)


def test_ranges_of_units_are_said_with_to():
    shown = runner.invoke(app, ["robots", "tello"], env={"COLUMNS": "200"}).stdout
    assert "20 to 500 cm" in shown
    assert not re.search(r"\d-\d", shown)


@pytest.mark.parametrize(("plan", "said"), [("tp();", "1 segment, "), ("mf(50);tc(90);", "2 segments, ")])
def test_a_plan_is_counted_with_the_right_noun(tmp_path, plan, said):
    config = tmp_path / "fake.yaml"
    config.write_text("backend: fake\n", encoding="utf-8")
    result = runner.invoke(app, ["plan", f"exactly: {plan}", "--config", str(config)])
    assert f"complete: {said}" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["robot", "bad name"],
        ["robot", "1st"],
        ["robot", "drone_1", "--planner", "bad name"],
        ["record", "never_written.mcap", "--planner", "bad name"],
        ["top", "--planner", ""],
    ],
)
def test_a_name_that_no_node_can_have_is_refused_in_one_line(arguments):
    error = runner.invoke(app, arguments).exception
    assert isinstance(error, PlannerError)
    assert "\n" not in error.message
    assert not Path("never_written.mcap").exists()


@pytest.mark.parametrize(
    ("words", "is_json"),
    [
        ("robots unicorn --json", True),
        ("top --planner '' --json", True),
        ("robots unicorn", False),
        ("robots profile --sim paper --json out.json", False),
    ],
)
def test_an_error_is_one_object_where_the_command_prints_one(words, is_json, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["llm-planner", *shlex.split(words)])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert said.out.startswith('{"error_code"') is is_json
    assert said.err.startswith("error:") is not is_json
