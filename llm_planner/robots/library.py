# SPDX-License-Identifier: Apache-2.0
"""Reads robot models from YAML files: the edge where everything is checked once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.documents import DocumentError, json_of, read_yaml
from llm_planner.robots.model import RobotModel

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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
        model = _ADAPTER.validate_json(json_of(document))
    except ValidationError as error:
        raise _invalid(path, "; ".join(map(_problem, error.errors()))) from error
    except DocumentError as error:
        raise _invalid(path, str(error)) from error
    if model.name != path.stem:
        raise _invalid(path, f"name: is {model.name!r} but the file is named {path.name!r}; make them equal")
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
        raise _invalid(path, f"adapter: {adapter[:200]!r} is no path: {error}") from error


def _read(path: Path) -> dict[Any, Any]:
    try:
        document = read_yaml(path)
    except DocumentError as error:
        raise _invalid(path, str(error)) from error
    if not isinstance(document, dict):
        raise _invalid(path, f"holds {type(document).__name__} instead of a mapping")
    return document


def _invalid(path: Path, problem: str) -> PlannerError:
    return PlannerError(ErrorCode.INVALID_ROBOT_MODEL, f"{path}: {problem}")


def _problem(error: "ErrorDetails") -> str:
    return f"{'.'.join(map(str, error['loc'])) or 'model'}: {_in_words(error)}"


def _in_words(error: "ErrorDetails") -> str:
    """Returns what is wrong with a value, and what to write instead."""
    location, value = error["loc"], error["input"]
    match error["type"]:
        case "unexpected_keyword_argument":
            return f"there is no such key; known are {', '.join(_keys(location[:-1]))}"
        case "dataclass_type":
            keys = _keys(location)
            is_parameter = keys == ["value", "source"] and isinstance(value, int | float)
            return f"write {{value: {value}, source: measured}}" if is_parameter else f"give it keys: {', '.join(keys)}"
        case "dict_type" | "union_tag_not_found":
            return "write {kind: ...} and its other keys; docs/robot_models.md has them"
        case "union_tag_invalid":
            return f"there is no kind {error['ctx']['tag']!r}; known are {error['ctx']['expected_tags']}"
        case "tuple_type":
            return f"give a list: [{value}]"
        case _:
            return error["msg"].removeprefix("Value error, ")


def _keys(location: tuple[int | str, ...]) -> list[str]:
    """Returns the keys that the record at this place of a robot model may have."""
    schema = place = _ADAPTER.json_schema()
    for part in location:
        if "discriminator" in place:
            place = {"$ref": place["discriminator"]["mapping"][part]}
        elif "properties" in place:
            place = place["properties"][part]
        else:
            place = place.get("items") or place["additionalProperties"]
        place = next((each for each in place.get("anyOf", ()) if each != {"type": "null"}), place)
        place = schema["$defs"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
    return list(place["properties"])
