# SPDX-License-Identifier: Apache-2.0
"""Settings as ROS parameters: names, defaults, ranges and descriptions come from dataclasses made with ``setting``."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

from llm_planner.configuration import load_config
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)

_NO_STRINGS = [""]  # rclpy takes an empty list for an array of bytes


def declare(node: Node, cls: "type[D]") -> "D":
    """Declares every field of a flat dataclass as a parameter and returns it with the values given at the start.

    They are read once: ROS refuses to set them later.

    Raises:
        PlannerError: INVALID_CONFIG if a value has a wrong type or is out of range.
    """
    _declare(node, cls, is_read_once=True)
    return cls(**{name: node.get_parameter(name).value for name in names(cls)})


def declare_config(node: Node) -> None:
    """Declares every field of ``PlannerConfig``; those of its sections as ``section.field``.

    Raises:
        PlannerError: INVALID_CONFIG if a value has a wrong type or is out of range.
    """
    _declare(node, PlannerConfig)


def read_config(node: Node) -> PlannerConfig:
    """Returns the configuration that the parameters stand for.

    Raises:
        PlannerError: INVALID_CONFIG, naming the parameters that are out of range.
    """
    values = {name: node.get_parameter(name).value for name in names(PlannerConfig)}
    return load_config(
        overrides={n: tuple(filter(None, v)) if isinstance(v, list | tuple) else v for n, v in values.items()}
    )


def names(cls: "type[DataclassInstance]") -> set[str]:
    """Returns the names of the parameters of a dataclass."""
    return {name for name, _ in fields_of(cls)}


def fields_of(cls: "type[DataclassInstance]", prefix: str = "") -> "Iterator[tuple[str, dataclasses.Field[object]]]":
    """Yields the name of each parameter of a dataclass, and the field that it stands for."""
    for field in dataclasses.fields(cls):
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            yield from fields_of(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field


def _declare(node: Node, cls: "type[DataclassInstance]", *, is_read_once: bool = False) -> None:
    try:
        for name, field in fields_of(cls):
            descriptor = _descriptor(field, is_read_once=is_read_once)
            value = node.declare_parameter(name, _to_parameter(field.default), descriptor).value
            if isinstance(field.default, float):
                _require_number(name, value, descriptor)
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"parameter refused: {error}") from error


def _require_number(name: str, value: object, descriptor: ParameterDescriptor) -> None:
    """ROS would refuse a whole number (``waits_for_plan_s: 0``) where others are possible: so it leaves that to us.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"parameter refused: {name} is {value!r:.80}, not a number")
    for limits in descriptor.floating_point_range:
        if not limits.from_value <= value <= limits.to_value:
            within = f"[{limits.from_value:g}, {limits.to_value:g}]"
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"parameter refused: {name} is {value:g}, not in {within}")


def _to_parameter(default: object) -> object:
    return (list(default) or _NO_STRINGS) if isinstance(default, tuple) else default


def _descriptor(field: "dataclasses.Field[object]", *, is_read_once: bool) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(description=field.metadata["description"], read_only=is_read_once)
    descriptor.dynamic_typing = isinstance(field.default, float)
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    if low is None or high is None:
        return descriptor
    if isinstance(field.default, int):
        descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    else:
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor
