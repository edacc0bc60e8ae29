# SPDX-License-Identifier: Apache-2.0
"""A YAML file -> a configuration, validated; what its values become is ``assembly``'s business."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from llm_planner.core.config import NodeSettings, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, did_you_mean, read_yaml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")
PLANNER = "/planner"
NODE_ONLY = frozenset(field.name for field in dataclasses.fields(NodeSettings))
OF_EVERY_NODE = frozenset({"use_sim_time", "start_type_description_service"})
"""Parameters that rclpy declares."""


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    node: str = PLANNER,
) -> PlannerConfig:
    """Returns the configuration of a YAML file with overrides on top, validated.

    Args:
        path: A YAML file with the fields of ``PlannerConfig`` and ``NodeSettings``, or a parameter file of ROS; None
            for the defaults.
        overrides: Dotted field names to values, e.g. ``{"scheduler.policy": "fcfs"}``; they win.
        defaults: The same, for fields that neither of both sets, in place of the planner's own.
        node: Full name of the planner's node: of a parameter file of ROS, its sections count.

    Raises:
        PlannerError: INVALID_CONFIG with the path of every field that is unknown, of a wrong type or out of range;
            INVALID_FILE for a file that cannot be read.
    """
    values: dict[str, Any] = {}
    if path:
        values, of_node = _settings(path, node)
        _validated(NodeSettings, of_node, path)
    for dotted, value in (overrides or {}).items():
        section, leaf = _place(values, dotted)
        section[leaf] = value
    for dotted, value in (defaults or {}).items():
        section, leaf = _place(values, dotted)
        section.setdefault(leaf, value)
    return _validated(PlannerConfig, values, path)


def _validated(cls: type[T], values: dict[str, Any], path: Path | None) -> T:
    try:
        validated = _schema(cls).model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {_in_words(e, cls)}" for e in error.errors())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{path or 'configuration'}: {problems}") from error
    return _to_dataclass(cls, validated.model_dump())


def _in_words(problem: "ErrorDetails", cls: Any) -> str:
    """Returns what is wrong with a value, and what to write instead."""
    match problem["type"]:
        case "extra_forbidden":
            *section, name = map(str, problem["loc"])
            for part in section:
                cls = next(field.type for field in dataclasses.fields(cls) if field.name == part)
            hint = did_you_mean(name, [field.name for field in dataclasses.fields(cls)])
            return f"there is no such setting; {hint or 'docs/parameters.md has all'}"
        case "tuple_type":
            return f"give a list: [{problem['input']}]"
        case _:
            return problem["msg"]


def _place(values: dict[str, Any], dotted: str) -> tuple[dict[str, Any], str]:
    """Returns the section of a field, which is made if it is not there, and the field's name in it."""
    *parents, leaf = dotted.split(".")
    section: Any = values
    for parent in parents:
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            return {}, leaf  # a mistake, which the validation names
    return section, leaf


def plain_parameters(path: Path) -> dict[str, Any]:
    """Returns what a plain file sets, by dotted names and as a parameter of ROS; of a ROS file, nothing.

    ROS reads parameter files of its own form only; the values of any other one must be handed to a node one by one.

    Raises:
        PlannerError: INVALID_CONFIG, as ``load_config``.
    """
    parameters: dict[str, Any] = {}

    def walk(values: Mapping[str, Any], section: Any, prefix: str = "") -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                walk(value, getattr(section, name), f"{prefix}{name}.")
            else:
                setting = getattr(section, name)
                parameters[prefix + name] = list(setting) if isinstance(setting, tuple) else setting

    if not is_ros_file(path):
        values, of_node = _settings(path)
        walk(values, load_config(path))
        walk(of_node, _validated(NodeSettings, of_node, path))
    return parameters


def is_ros_file(path: Path) -> bool:
    """Returns whether ROS can read a file as a parameter file.

    Raises:
        PlannerError: INVALID_FILE, or INVALID_CONFIG for parameters of ROS that are none.
    """
    return any(_sections(_mapping(path)))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        values = read_yaml(path)
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error
    if not isinstance(values, dict | None):
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} holds {type(values).__name__} instead of a mapping")
    return values or {}


def _settings(path: Path, node: str = PLANNER) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what a file sets of ``PlannerConfig``, and of ``NodeSettings``.

    A parameter file of ROS (``config/planner.yaml``) is read as ROS reads it: of the sections for a node, each name
    counts by itself, and the last one wins.
    """
    document = _mapping(path)
    sections = list(_sections(document))
    own = [values for name, values in sections if _is_for(name, node)] if sections else [document]
    if not own:
        message = f"{path} is not for {node} but for {', '.join(name for name, _ in sections)}; /** is for every node"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    settings: dict[str, Any] = {}
    for values in own:
        _merge(settings, values)
    for name in OF_EVERY_NODE if sections else ():
        settings.pop(name, None)
    if isinstance(settings.get("robot_models"), list):  # ROS has no empty list of strings
        settings["robot_models"] = [directory for directory in settings["robot_models"] if directory]
    return settings, {name: settings.pop(name) for name in sorted(NODE_ONLY & settings.keys())}


def _sections(document: Mapping[Any, Any], namespace: str = "") -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yields the names of nodes of a parameter file of ROS, with what it sets for them; of any other file, nothing."""
    for key, value in document.items():
        name = f"{namespace}/{f'{key}'.strip('/')}"
        if not isinstance(value, dict):
            continue
        if "ros__parameters" not in value:
            yield from _sections(value, name)
        elif isinstance(value["ros__parameters"], dict):
            yield name, value["ros__parameters"]
        else:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "ros__parameters must hold names and values")


def _is_for(section: str, node: str) -> bool:
    """Returns whether the name of a section means a node: ``*`` is any name, ``**`` any number of them."""
    wild = {"**": r"(/\w+)*", "*": r"/\w+"}
    return bool(re.fullmatch("".join(wild.get(p, f"/{re.escape(p)}") for p in section[1:].split("/")), node))


def _merge(settings: dict[str, Any], values: Mapping[Any, Any]) -> None:
    """Adds values to settings: the fields of a section one by one, and a dotted name in its section."""
    for key, value in values.items():
        section, name = _place(settings, f"{key}")
        if isinstance(value, dict) and isinstance(section.setdefault(name, {}), dict):
            _merge(section[name], value)
        else:
            section[name] = value


def _schema(cls: type) -> type[BaseModel]:
    """Returns a pydantic model of a configuration dataclass: its types, ranges and defaults; no unknown keys."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(field.type):
            nested = _schema(field.type)  # type: ignore[arg-type]
            fields[field.name] = (nested, Field(default_factory=nested))
        else:
            names = field.metadata["one_of"]
            limits = Field(ge=field.metadata["minimum"], le=field.metadata["maximum"])
            kind = Annotated[Literal[names], BeforeValidator(_name)] if names else Annotated[field.type, limits]
            fields[field.name] = (kind, field.default)
    return create_model(
        cls.__name__, __config__=ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=()), **fields
    )


def _name(value: object) -> object:
    """Returns the name that a value of YAML stands for: it reads on and off as true and false."""
    return value if not isinstance(value, bool) else "on" if value else "off"


def _to_dataclass(cls: Callable[..., T], values: dict[str, Any]) -> T:
    nested: dict[str, Any] = {f.name: f.type for f in dataclasses.fields(cls) if dataclasses.is_dataclass(f.type)}  # type: ignore[arg-type]
    return cls(**{k: _to_dataclass(nested[k], v) if k in nested else v for k, v in values.items()})
