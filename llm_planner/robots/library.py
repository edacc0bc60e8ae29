# SPDX-License-Identifier: Apache-2.0
"""Reads robot models from YAML files: the edge where everything is checked once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.robots.model import RobotModel

_ADAPTER = TypeAdapter(RobotModel)


def load_robot_model(path: Path) -> RobotModel:
    """Returns the robot model of a YAML file; its name must be the file's name without ``.yaml``.

    Raises:
        PlannerError: INVALID_ROBOT_MODEL, with the file and the path of every key that is unknown, missing or wrong.
    """
    document = _read(path)
    skills = document.get("skills")
    if isinstance(skills, dict):  # in a file the key is the name: it need not be written twice
        document["skills"] = {k: {"name": k, **v} if isinstance(v, dict) else v for k, v in skills.items()}
    document.pop("definitions", None)  # a place for YAML anchors
    try:
        model = validated(_ADAPTER, document)
    except DocumentError as error:
        raise _invalid(path, str(error)) from error
    if model.name != path.stem:
        raise _invalid(path, f"is the file of robot model {model.name!r}, as `name` says; make them equal")
    return model if model.adapter is None else replace(model, adapter=_directory(path, model.adapter))


class RobotLibrary:
    """Robot models by name: ``<name>.yaml`` in the given directories, the first one wins, then the bundled ones.

    Raises:
        PlannerError: INVALID_CONFIG for a directory that is not there: its robots would be taken for the bundled ones.
    """

    def __init__(self, directories: Sequence[Path] = ()) -> None:
        for directory in directories:
            if not directory.is_dir():
                hint = f"looked in {Path.cwd()}; robot_models is relative to where the program is started"
                where = "" if directory.is_absolute() else f" ({hint})"
                raise PlannerError(ErrorCode.INVALID_CONFIG, f"robot models: {directory} is no directory{where}")
        self._directories = [*directories, share_dir() / "robot_models"]
        self._models: dict[str, RobotModel] = {}

    def names(self) -> tuple[str, ...]:
        """Returns the names of all models, sorted."""
        return tuple(sorted(self._paths()))

    def get(self, name: str) -> RobotModel:
        """Returns a model; a file is read once.

        Raises:
            PlannerError: UNKNOWN_ROBOT_MODEL with the known names, or INVALID_ROBOT_MODEL if its file is broken.
        """
        if name not in self._models:
            self._models[name] = load_robot_model(self.path_of(name))
        return self._models[name]

    def path_of(self, name: str) -> Path:
        """Returns the file of a model.

        Raises:
            PlannerError: UNKNOWN_ROBOT_MODEL with the known names.
        """
        paths = self._paths()
        if name not in paths:  # also keeps a name such as ../secret from becoming a path
            known = ", ".join(sorted(paths)) or "none"
            raise PlannerError(ErrorCode.UNKNOWN_ROBOT_MODEL, f"no robot model {name[:80]!r}; known are: {known}")
        return paths[name]

    def _paths(self) -> dict[str, Path]:
        """Returns the files by name, without those that an editor hides."""
        paths = (path for directory in reversed(self._directories) for path in directory.glob("[!.]*.yaml"))
        return {path.stem: path for path in paths if path.is_file()}


def _directory(path: Path, adapter: str) -> str:
    try:
        return str((path.absolute().parent / Path(adapter).expanduser()).resolve())
    except (OSError, RuntimeError, ValueError) as error:  # an unknown home, links in a circle, a null character
        raise _invalid(path, f"is wrong: adapter: {adapter[:200]!r} is no path: {error}") from error


def _read(path: Path) -> dict[Any, Any]:
    try:
        document = read_yaml(path)
    except DocumentError as error:
        raise _invalid(path, str(error)) from error
    if not isinstance(document, dict):
        raise _invalid(path, f"holds {type(document).__name__} instead of a mapping")
    return document


def _invalid(path: Path, problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_ROBOT_MODEL, f"{path} {problem}")
