# SPDX-License-Identifier: Apache-2.0
"""What a set of modules imports of this repository, directly or not, imports within functions included.

python scripts/import_closure.py                        # files and lines that the product's programs reach
python scripts/import_closure.py llm_planner.assembly   # the modules that this one reaches
"""

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"llm_planner": ROOT / "llm_planner", "llm_planner_lab": ROOT / "lab" / "llm_planner_lab"}
PLANNER = ("llm_planner.ros.planner_node", "llm_planner.assembly")
NODES = (
    *PLANNER,
    "llm_planner.client",
    "llm_planner.ros.dashboard_node",
    "llm_planner.ros.recorder_node",
    "llm_planner.ros.robot_group",
    "llm_planner.ros.world_node",
)


@cache
def modules() -> dict[str, Path]:
    """Returns the source file of every module."""
    found: dict[str, Path] = {}
    for name, directory in SOURCES.items():
        for path in directory.rglob("*.py"):
            parts = [name, *path.relative_to(directory).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """Returns the modules of this repository that a module imports, those for type checkers alone left out."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return frozenset(names & modules().keys())


def closure(roots: Iterable[str]) -> set[str]:
    """Returns the modules that are loaded when ``roots`` run through all of their code, packages included."""
    reached: set[str] = set()
    todo = list(roots)
    while todo:
        module = todo.pop()
        if module in reached or module not in modules():
            continue
        reached.add(module)
        todo += [*imports(module), module.rpartition(".")[0]]
    return reached


def command_line() -> tuple[str, ...]:
    """Returns the modules of the product's command line, which imports its commands by name."""
    return tuple(name for name in modules() if name.startswith("llm_planner.cli."))


def size(found: Iterable[str]) -> str:
    """Returns number of files and lines."""
    paths = [modules()[name] for name in found]
    return f"{len(paths)} files, {sum(len(path.read_text(encoding='utf-8').splitlines()) for path in paths):,} lines"


def main() -> None:
    """Prints a closure, or the sizes of all that matter."""
    if sys.argv[1:]:
        print(*sorted(closure(sys.argv[1:])), sep="\n")
        return
    print("planner node and assembly:", size(closure(PLANNER)))
    print("five nodes and client:    ", size(closure(NODES)))
    print("and the command line:     ", size(closure((*NODES, *command_line()))))
    for name in SOURCES:
        print(f"{name + ':':26}", size(module for module in modules() if module.partition(".")[0] == name))


if __name__ == "__main__":
    main()
