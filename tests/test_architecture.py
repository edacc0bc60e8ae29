# SPDX-License-Identifier: Apache-2.0
"""What ARCHITECTURE.md draws and tabulates is what stands in the tree."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TREES = {"llm_planner": ROOT / "llm_planner", "lab/llm_planner_lab": ROOT / "lab" / "llm_planner_lab"}


def packages(tree: Path) -> set[str]:
    """Returns the names of a tree's packages, those that are generated left out."""
    return {path.parent.name for path in tree.glob("*/__init__.py")} - {"msg", "srv", "action"}


def drawn(text: str) -> dict[str, set[str]]:
    """Returns the packages that the drawing names below each folder."""
    found: dict[str, set[str]] = {}
    fence = text.partition("## Two trees\n\n```\n")[2].partition("```")[0]
    names: set[str] = set()
    for line in fence.splitlines():
        if line[0] == " ":
            names |= set(re.split(r" {2,}", line.strip())[0].split())
        else:
            for word in takewhile(lambda word: "/" in word, line.split()):
                names = found.setdefault(word.rstrip("/"), set())
    return found


def rows(text: str, tree: str) -> set[str]:
    """Returns the names in the first column of the table of a tree."""
    table = text.partition(f"| `{tree}/` |")[2].partition("\n\n")[0]
    return {name.rstrip("/") for name in re.findall(r"^\| `([\w./]+)` \|", table, re.MULTILINE)}


@pytest.mark.parametrize("tree", TREES)
def test_the_drawing_has_every_package(tree):
    there = drawn(TEXT)[tree]
    assert packages(TREES[tree]) <= there <= packages(TREES[tree]) | {path.stem for path in TREES[tree].glob("*.py")}


def test_the_drawing_has_every_folder_of_the_laboratory():
    folders = {path for path in (ROOT / "lab").iterdir() if path.is_dir() and any(path.rglob("*.*"))}
    there = {f"lab/{path.name}" for path in folders if not path.name.endswith(".egg-info") and path.name[0] not in "._"}
    assert {name for name in drawn(TEXT) if name.startswith("lab/")} == there


@pytest.mark.parametrize("tree", TREES)
def test_the_table_has_every_package_and_module(tree):
    modules = {path.name for path in TREES[tree].glob("*.py")} - {"__init__.py"}
    assert rows(TEXT, tree) == packages(TREES[tree]) | modules


def test_the_laboratory_adds_the_commands_that_are_named():
    commands = pytest.importorskip("llm_planner_lab.cli.commands").COMMANDS
    sentence = re.search(r"commands \(([^)]*)\) join `llm-planner`", TEXT.replace("\n", " "))
    assert sentence
    named = {name for name in re.findall(r"`([\w*-]+)`", sentence[1]) if name != "train-*"}
    assert {command.name for command in commands if not command.name.startswith("train-")} == named


def test_a_drawing_that_lacks_a_folder_would_be_noticed():
    text = "## Two trees\n\n```\nlab/x/    the x\n  a b     what they are\n  c\ntests/  lab/tests/    mirror\n```\n"
    assert drawn(text) == {"lab/x": {"a", "b", "c"}, "tests": set(), "lab/tests": set()}
