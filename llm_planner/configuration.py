# SPDX-License-Identifier: Apache-2.0
"""A YAML file -> a configuration, validated; what its values become is ``assembly``'s business."""

import dataclasses
import difflib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, read_yaml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")
NODE_ONLY = frozenset(
    {"autostart", "startup_check_s", "client_timeout_s", "result_memory_s", "metrics_port", "metrics_host"}
)
"""Parameters of the ROS node that are no settings of a planner (``ros.node_settings``)."""
OF_EVERY_NODE = frozenset({"use_sim_time", "start_type_description_service"})
"""Parameters that rclpy declares."""


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> PlannerConfig:
    """Returns the configuration of a YAML file with overrides on top, validated.

    Args:
        path: A YAML file with the fields of ``PlannerConfig``; None for the defaults.
        overrides: Dotted field names to values, e.g. ``{"scheduler.policy": "fcfs"}``; they win.
        defaults: The same, for fields that neither of both sets, in place of the planner's own.

    Raises:
        PlannerError: INVALID_CONFIG with the path of every field that is unknown, of a wrong type or out of range.
    """
    values = _planner_part(_mapping(path)) if path else {}
    for dotted, value in (overrides or {}).items():
        section, leaf = _place(values, dotted)
        section[leaf] = value
    for dotted, value in (defaults or {}).items():
        section, leaf = _place(values, dotted)
        section.setdefault(leaf, value)
    try:
        validated = _schema(PlannerConfig).model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {_in_words(e)}" for e in error.errors())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{path or 'configuration'}: {problems}") from error
    return _to_dataclass(PlannerConfig, validated.model_dump())


def _in_words(problem: "ErrorDetails") -> str:
    """Returns what is wrong with a value, and what to write instead."""
    match problem["type"]:
        case "extra_forbidden":
            *section, name = map(str, problem["loc"])
            cls: Any = PlannerConfig
            for part in section:
                cls = next(field.type for field in dataclasses.fields(cls) if field.name == part)
            near = difflib.get_close_matches(name, [field.name for field in dataclasses.fields(cls)], n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            return f"there is no such setting; {hint}docs/parameters.md has all"
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


def plain_parameters(path: Path) -> dict[str, str]:
    """Returns what a plain file sets, by dotted names and as ROS takes it on a command line; of a ROS file, nothing.

    ROS reads parameter files of its own form only; the values of any other one must be handed to a node one by one.

    Raises:
        PlannerError: INVALID_CONFIG, as ``load_config``.
    """
    config, parameters = load_config(path), {}

    def walk(values: Mapping[str, Any], section: Any, prefix: str) -> None:  # noqa: ANN401 (a configuration)
        for name, value in values.items():
            if isinstance(value, dict):
                walk(value, getattr(section, name), f"{prefix}{name}.")
            else:
                parameters[prefix + name] = json.dumps(getattr(section, name))

    if not _is_ros_file(document := _mapping(path)):
        walk(document, config, "")
    return parameters


def is_ros_file(path: Path) -> bool:
    """Returns whether ROS can read a file as a parameter file.

    Raises:
        PlannerError: INVALID_FILE, or INVALID_CONFIG for a file that holds no mapping.
    """
    return _is_ros_file(_mapping(path))


def _is_ros_file(values: Mapping[str, Any]) -> bool:
    return any(isinstance(section, dict) and "ros__parameters" in section for section in values.values())


def _mapping(path: Path) -> dict[str, Any]:
    try:
        values = read_yaml(path)
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error
    if not isinstance(values, dict | None):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{path} holds {type(values).__name__} instead of a mapping")
    return values or {}


def _planner_part(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the planner's settings of a ROS parameter file (``config/planner.yaml``); any other file is all ours."""
    sections = [s["ros__parameters"] for s in values.values() if isinstance(s, dict) and "ros__parameters" in s]
    if not sections:
        return values
    named = [section for section in sections if isinstance(section, dict)]
    if len(named) < len(sections):
        raise PlannerError(ErrorCode.INVALID_CONFIG, "ros__parameters must hold names and values")
    others = NODE_ONLY | OF_EVERY_NODE
    settings = {key: value for section in named for key, value in section.items() if key not in others}
    if isinstance(settings.get("robot_models"), list):  # ROS has no empty list of strings
        settings["robot_models"] = [directory for directory in settings["robot_models"] if directory]
    return settings


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
            fields[field.name] = (Literal[names] if names else Annotated[field.type, limits], field.default)
    return create_model(
        cls.__name__, __config__=ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=()), **fields
    )


def _to_dataclass(cls: Callable[..., T], values: dict[str, Any]) -> T:
    nested: dict[str, Any] = {f.name: f.type for f in dataclasses.fields(cls) if dataclasses.is_dataclass(f.type)}  # type: ignore[arg-type]
    return cls(**{k: _to_dataclass(nested[k], v) if k in nested else v for k, v in values.items()})
