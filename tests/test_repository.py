# SPDX-License-Identifier: Apache-2.0
"""What holds for the repository as a whole: versions agree, all is pinned, no machine is named."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = ("jazzy", "kilted")
# In pieces, so that this file does not match itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.>}*)-])/(?:" + "|".join(("home/\\w", "root/", "Users/", "work/", "tm" + "p/")) + ")"
)
REGISTRY_HOST = re.compile(
    "|".join(
        (
            "py" + r"pi\.org",
            "python" + r"hosted\.org",
            "download\\.py" + r"torch\.org",
            "npm" + r"js\.\w+",
            "gh" + r"cr\.io",
        )
    )
)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def text_files() -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        try:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures, weights
            continue


def requirement_lines(*names: str) -> list[str]:
    lines = [line for name in names for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["machine path", "registry host"])
def test_no_file_names_a_machine(pattern):
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


@pytest.mark.parametrize(
    ("pattern", "line", "is_bad"),
    [
        (MACHINE_PATH, "cd /ho" + "me/ann/project", True),
        (MACHINE_PATH, 'open("/tm' + 'p/x")', True),
        (MACHINE_PATH, "source /opt/ros/jazzy/setup.bash", False),
        (MACHINE_PATH, "docs/work/plan.md", False),
        (REGISTRY_HOST, "https://py" + "pi.org/simple", True),
    ],
)
def test_the_patterns_see_what_they_should(pattern, line, is_bad):
    assert bool(pattern.search(line)) == is_bad


def test_timers_follow_the_steady_clock():
    """rclpy's own follow the system time: a step of it silences them, or makes them fire in a burst."""
    files = set((ROOT / "llm_planner" / "ros").glob("*.py")) - {ROOT / "llm_planner" / "ros" / "steady.py"}
    found = {path.stem for path in files if "create_timer(" in path.read_text()}
    of_robots = {"gazebo_arm_port", "gazebo_port", "planner_client", "robot_node", "robot_view", "world_node"}
    assert found <= of_robots


def test_versions_agree():
    package = ET.parse(ROOT / "package.xml").getroot()
    module = ast.parse((ROOT / "llm_planner" / "__init__.py").read_text())
    assignments = [node for node in module.body if isinstance(node, ast.Assign)]
    versions = {ast.literal_eval(a.value) for a in assignments if ast.unparse(a.targets[0]) == "__version__"}
    released = re.findall(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions == {pyproject()["project"]["version"]} == {package.findtext("version")} == {released[0]}
    assert package.findtext("name") == pyproject()["project"]["name"]


def test_licence_is_the_same_everywhere():
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert ET.parse(ROOT / "package.xml").getroot().findtext("license") == "Apache-2.0"
    assert pyproject()["project"]["license"] == {"text": "Apache-2.0"}


def test_every_source_file_has_its_licence_line():
    code = {".py", ".sh", ".cmake", ".msg", ".srv", ".action", ".in", ".js", ".c", ".cpp", ".css", ".html", ".j2"}
    named = {"CMakeLists.txt", "Makefile", "run"}
    sources = [path for path in tracked_files() if path.suffix in code or path.name in named]
    of_others = ROOT / "cmake" / "tf2_msgs" / "msg"
    texts = {path: path.read_text(encoding="utf-8") for path in sources if not path.is_relative_to(of_others)}
    lacking = [
        p for p, text in texts.items() if text.strip() and "SPDX-License-Identifier: Apache-2.0" not in text[:300]
    ]
    assert not lacking


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.stem)
def test_every_requirement_has_an_exact_version(path):
    lines = requirement_lines(path.stem)
    assert lines
    for line in [*lines, *pyproject()["build-system"]["requires"]]:
        assert re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+", line), line


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_no_package_has_two_versions(distribution):
    pins: dict[str, set[str]] = {}
    groups = (
        "runtime",
        "plots",
        "sim",
        "dev",
        "constraints",
        *(f"{kind}-{distribution}" for kind in ("ros", "build", "constraints")),
    )
    for line in requirement_lines(*groups):
        requirement = Requirement(line)
        pins.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    assert not {name: versions for name, versions in pins.items() if len(versions) > 1}


def _needs(requirement: Requirement) -> list[Requirement]:
    """Returns what an installed distribution requires on this machine, with the extras that were asked for."""
    needs = map(Requirement, importlib.metadata.requires(requirement.name) or ())
    extras = requirement.extras or {""}
    return [need for need in needs if not need.marker or any(need.marker.evaluate({"extra": e}) for e in extras)]


def test_transitive_dependencies_are_pinned_too():
    """Walks from our requirements over the metadata of what is installed."""
    try:
        is_jazzy = importlib.metadata.version("ros-rclpy").startswith("7.")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ROS 2 was not installed from wheels")
    distribution = "jazzy" if is_jazzy else "kilted"
    ours = ("runtime", "plots", "sim", "dev", f"ros-{distribution}", f"build-{distribution}")
    constraints = requirement_lines("constraints", f"constraints-{distribution}")
    pinned = {canonicalize_name(Requirement(line).name) for line in [*requirement_lines(*ours), *constraints]}
    todo = [Requirement(line) for line in requirement_lines(*ours)]
    seen: set[str] = set()
    unpinned: set[str] = set()
    while todo:
        requirement = todo.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        is_exact = any(
            specifier.operator == "==" for specifier in requirement.specifier
        )  # torch pins its CUDA packages
        if canonicalize_name(requirement.name) not in pinned and not is_exact:
            unpinned.add(requirement.name)
        todo += _needs(requirement)
    assert not unpinned


def test_the_packages_that_tests_and_gazebo_need_are_declared():
    package = ET.parse(ROOT / "package.xml").getroot()
    of_tests = {depend.text for depend in package.findall("test_depend")}
    assert {"python3-pytest", "python3-hypothesis"} <= of_tests
    optional = {d.text: d.get("condition") for d in package.findall("exec_depend") if d.get("condition")}
    assert optional == dict.fromkeys(("ros_gz_bridge", "ros_gz_sim"), "$LLM_PLANNER_GAZEBO == 1")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:catkin_pkg")
@pytest.mark.parametrize("path", sorted(path for path in tracked_files() if path.name == "package.xml"), ids=str)
def test_tools_of_ros_take_the_package(path):
    packages = pytest.importorskip("catkin_pkg.package", reason="catkin_pkg is missing: requirements/build-*.txt")
    warnings: list[str] = []
    package = packages.parse_package(str(path), warnings=warnings)
    assert warnings == []
    assert package.package_format == 3


@pytest.mark.parametrize("path", sorted(path for path in tracked_files() if path.suffix == ".xml"), ids=str)
def test_xml_is_well_formed(path):
    assert ET.parse(path).getroot().tag


def test_cmake_files_are_clean_as_lint_cmake_wants_them():
    """ament_lint_cmake is cmakelint with lines of up to 140 characters."""
    pytest.importorskip("cmakelint", reason="cmakelint is missing: requirements/dev.txt")
    files = [str(path) for path in tracked_files() if path.suffix == ".cmake" or path.name == "CMakeLists.txt"]
    assert files
    lint = [sys.executable, "-c", "import sys, cmakelint.main; sys.exit(cmakelint.main.main())"]
    options = ["--config=None", "--linelength=140"]
    done = subprocess.run([*lint, *options, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "Total Errors: 0\n")


def test_interfaces_find_the_packages_they_use():
    package = ET.parse(ROOT / "package.xml").getroot()
    declared = {depend.text for depend in package.findall("depend")}
    definitions = [path for kind in ("msg", "srv", "action") for path in (ROOT / kind).glob(f"*.{kind}")]
    assert definitions
    used = {name for path in definitions for name in re.findall(r"^([a-z]\w*)/[A-Z]", path.read_text(), re.MULTILINE)}
    assert used <= declared
    cmake = (ROOT / "CMakeLists.txt").read_text()
    assert all(f"find_package({name} REQUIRED)" in cmake for name in declared)


def test_every_folder_has_its_layer():
    layers = pyproject()["tool"]["importlinter"]["contracts"][0]["layers"]
    named = {name for line in layers for name in re.findall(r"llm_planner\.(\w+)", line)}
    folders = {path.parent.name for path in (ROOT / "llm_planner").glob("*/__init__.py")}
    assert folders - {"msg", "srv", "action"} <= named


def test_generated_folders_are_not_in_the_source():
    assert not [kind for kind in ("msg", "srv", "action") if (ROOT / "llm_planner" / kind).exists()]


def test_make_alone_prints_help():
    done = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True)
    for target in ("setup", "demo", "test", "check", "colcon"):
        assert re.search(rf"^  {target}\s+\w", done.stdout, re.MULTILINE)


def test_scripts_parse_and_run():
    scripts = [ROOT / ".ci" / "run", *(ROOT / "scripts").glob("*.sh")]
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert script.stat().st_mode & 0o111, f"{script} is not executable"


def test_installed_commands_exist():
    cmake = (ROOT / "cmake" / "install_commands.cmake").read_text()
    commands = re.findall(r"^  install_command\(\S+ (\S+) (\w+) ", cmake, re.MULTILINE)
    scripts = [entry.split(":") for entry in pyproject()["project"]["scripts"].values()]
    assert len(commands) >= 3
    for module, function in [*commands, *scripts]:
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, module


def test_this_interpreter_is_supported():
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", pyproject()["project"]["requires-python"]).groups()
    assert int(low) <= sys.version_info.minor < int(high)
