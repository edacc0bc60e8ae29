# SPDX-License-Identifier: Apache-2.0
"""What the pages say to type exists: targets and variables of make, launch files and their arguments, nodes, paths."""

import re
from itertools import pairwise

import pytest

from llm_planner.assembly import build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode
from tests.documented import ROOT, Command, commands_of, documented
from tests.ros import launch_fakes
from tests.serving.loop_run import Run

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def wrong_with_make(command: Command) -> list[str]:
    """Returns the words of a call of make that the Makefile does not know."""
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE))
    wrong = [word for word in command.words if word.partition("=")[0] not in targets | variables]
    paths = " ".join(word.partition("=")[2] for word in command.words if word.startswith("ARGS="))
    return wrong + missing_tests(paths.split())


def missing_tests(words: list[str] | tuple[str, ...]) -> list[str]:
    """Returns the paths to tests that are not there."""
    return [word for word in words if re.match(r"(lab/)?tests/", word) and not (ROOT / word).exists()]


@pytest.mark.parametrize("command", documented("make"), ids=str)
def test_make_knows_its_words(command):
    assert not wrong_with_make(command), command.page


@pytest.mark.parametrize("command", [c for c in documented(r"python3?") if "pytest" in c.words], ids=str)
def test_pytest_finds_its_paths(command):
    assert not missing_tests(command.words), command.page


def arguments_of(file: str) -> set[str]:
    """Returns the names of the arguments that a launch file declares."""
    entities = launch_fakes.description_of(launch_fakes.LAUNCH / file).arguments[0]
    return {each.arguments[0] for each in entities if isinstance(each, launch_fakes.DeclareLaunchArgument)}


@pytest.mark.ros
@pytest.mark.parametrize("command", [c for c in documented("ros2") if c.words[2:] and c.words[0] == "launch"], ids=str)
def test_a_launch_file_has_the_arguments(command, monkeypatch):
    launch_fakes.install(monkeypatch)
    package, file, *given = command.words[1:]
    assert package == "llm_planner"
    assert {word.partition(":=")[0] for word in given} <= arguments_of(file), command.page


def parameters_of_robots() -> set[str]:
    """Returns the names of a robot node's parameters."""
    from llm_planner.ros import parameters
    from llm_planner.ros.body import BodySettings
    from llm_planner.ros.robot_node import RobotSettings

    return parameters.names(RobotSettings) | parameters.names(BodySettings)


@pytest.mark.ros
@pytest.mark.parametrize("command", [c for c in documented("ros2") if c.words[2:] and c.words[0] == "run"], ids=str)
def test_a_node_has_the_parameters(command):
    package, node, *words = command.words[1:]
    assert package == "llm_planner"
    assert f"install_command({node} " in (ROOT / "cmake" / "install_commands.cmake").read_text()
    given = {after.partition(":=")[0] for word, after in pairwise(words) if word == "-p"}
    assert given <= (parameters_of_robots() if node == "robot_node" else set()), command.page


def sentences() -> set[tuple[str, str]]:
    """Returns what a reader without a model of his own is told to say to a Tello, and the scene."""
    plans = [c.words for c in documented("llm-planner") if c.words[:1] == ("plan",) and c.words[1:2]]
    sends = [c.words for c in documented("llm-planner") if c.words[:2] == ("send", "drone_1")]
    owns_model = {"--model", "-m", "--backend", "--chat"}
    said = {(words[1], "") for words in plans if not owns_model & set(words)}
    said |= {(words[2], "") for words in sends if words[2] != "..."}
    for path in ("README.md", "llm_planner/client.py"):
        said |= set(re.findall(r'\.plan\("([^"]+)", scene="([^"]+)"[,)]', (ROOT / path).read_text(encoding="utf-8")))
    return said


def test_the_bundled_model_plans_what_the_pages_say_to_it():
    loop = build_loop(PlannerConfig(engine=EngineConfig(num_threads=1)))
    run, said = Run(loop), sorted(sentences())
    assert len(said) > 4
    for number, (instruction, scene) in enumerate(said):
        run.submit(f"r{number}", instruction, robot_model="tello", scene=scene)
    run.go()
    results = {words: run.result(f"r{number}") for number, words in enumerate(said)}
    loop.close()
    assert not {words: result.error_msg for words, result in results.items() if result.error_code is not ErrorCode.NONE}


def test_the_examples_of_a_page_are_found():
    page = """
`make demo` does it. And `CHAOS=1 make test
ARGS=tests/nowhere`, or:

   ```bash
   make chek VAR=1      # a comment
   nice python3 -m pytest tests/core \\
     -q
   ```

    make setup
"""
    found = [command for command in commands_of(page) if command.program in ("make", "python3")]
    assert [str(command) for command in found] == [
        "make chek VAR=1",
        "python3 -m pytest tests/core -q",
        "make setup",
        "make demo",
        "CHAOS=1 make test ARGS=tests/nowhere",
    ]
    assert [wrong_with_make(command) for command in found if command.program == "make"] == [
        ["chek", "VAR=1"],
        [],
        [],
        ["tests/nowhere"],
    ]
