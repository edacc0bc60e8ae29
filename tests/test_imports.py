# SPDX-License-Identifier: Apache-2.0
"""The import fence, checked in fresh interpreters: importing the planner's logic loads no ROS, torch or vLLM."""

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PURE = ("core", "language", "planning", "robots", "prediction", "scheduling", "serving")
FORBIDDEN = {"rclpy", "llguidance", "mujoco", "torch", "transformers", "vllm", "xgboost"}
SLOW = FORBIDDEN | {"matplotlib", "numpy", "pandas", "scipy"}  # to load, for a command that only says something
SAY_SOMETHING = (
    "--help",
    "check --help",
    "check mf(50);",
    "doctor --help",
    "plan --help",
    "robots list",
    "send --help",
    "up --help",
)

PROBE = """
import importlib, json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


RUN = """
import contextlib, io, json, sys
before = set(sys.modules)
from llm_planner.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
    main()
assert said.getvalue().strip()
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(*arguments: str, program: str = PROBE) -> set[str]:
    """Returns the modules that a fresh interpreter loads when it imports, or is told, ``arguments``."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'lab'}"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def modules_of(package: str, tree: str = "llm_planner") -> list[str]:
    directory, root = ROOT / tree / package, Path(tree).name
    walked = pkgutil.walk_packages([str(directory)], prefix=f"{root}.{package}.")
    # Importing a __main__ runs it.
    return [f"{root}.{package}", *(module.name for module in walked if not module.name.endswith("__main__"))]


def top_level(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("package", PURE)
def test_pure_package_loads_nothing_heavy(package):
    loaded = loaded_by(*modules_of(package))
    assert f"llm_planner.{package}" in loaded
    assert not top_level(loaded) & FORBIDDEN


@pytest.mark.parametrize("package", ["core", "language"])
def test_vocabulary_needs_only_the_standard_library(package):
    assert top_level(loaded_by(*modules_of(package))) - set(sys.stdlib_module_names) == {"llm_planner"}


@pytest.mark.parametrize("words", SAY_SOMETHING)
def test_a_command_that_says_something_loads_nothing_slow(words):
    loaded = loaded_by(*words.split(), program=RUN)
    assert "typer" in loaded
    assert not top_level(loaded) & SLOW


@pytest.mark.ros
def test_sending_loads_nothing_of_the_planner():
    """A word to a robot does not wait for modules that it does not need."""
    loaded = loaded_by("llm_planner.cli.send", *(f"llm_planner.ros.{name}" for name in ("commander", "spinning")))
    assert "rclpy" in loaded
    assert not top_level(loaded) & {"numpy", "pydantic", "torch"}
    ours = {module.split(".")[1] for module in loaded if module.startswith("llm_planner.")}
    assert not ours & {"assembly", "engine", "monitoring", "planning", "robots", "scheduling", "serving"}


def test_help_loads_no_command():
    loaded = loaded_by("--help", program=RUN)
    ours = {module for module in loaded if module.startswith("llm_planner.cli.")} - {"llm_planner_lab.cli.commands"}
    assert ours == {"llm_planner.cli.lazy", "llm_planner.cli.main"}


def test_planning_on_a_cpu_loads_nothing_of_the_compiler_of_torch():
    """With it a planner would start a second later and take 75 MB more."""
    loaded = loaded_by("plan", "land", program=RUN)
    assert "llm_planner.engine.backend" in loaded
    assert "sympy" not in top_level(loaded)
    assert "torch._dynamo" not in loaded


NODES = ("planner_node", "robot_group", "robot_node", "world_node", "dashboard_node", "recorder_node")
OPTIONAL = {"matplotlib", "mujoco", "sklearn", "xgboost"}


def of_laboratory(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] == "llm_planner_lab"}


@pytest.mark.ros
@pytest.mark.parametrize("name", [*(f"llm_planner.ros.{node}" for node in NODES), "llm_planner.client"])
def test_a_node_loads_neither_laboratory_nor_what_is_optional(name):
    loaded = loaded_by(name)
    assert "rclpy" in loaded
    assert not of_laboratory(loaded)
    assert not top_level(loaded) & OPTIONAL


def test_package_itself_is_light():
    loaded = loaded_by("llm_planner")
    assert {module for module in loaded if module.startswith("llm_planner")} == {"llm_planner"}
    assert top_level(loaded) - set(sys.stdlib_module_names) == {"llm_planner"}


def test_the_fence_would_notice():
    """The probe reports what it should: the engine does load torch."""
    assert "torch" in top_level(loaded_by("llm_planner.engine.model"))


@pytest.mark.ros
def test_generated_interfaces_and_source_are_one_package():
    assert {"llm_planner.action", "llm_planner.msg", "llm_planner.srv", "llm_planner.core.errors"} <= loaded_by(
        "llm_planner.action", "llm_planner.msg", "llm_planner.srv", "llm_planner.core.errors"
    )
