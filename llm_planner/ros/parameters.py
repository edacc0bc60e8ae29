"""The planner's configuration as ROS parameters: names, ranges and descriptions come from ``PlannerConfig``."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

from llm_planner.assembly import load_config
from llm_planner.core.config import PlannerConfig, setting
from llm_planner.core.errors import ErrorCode, PlannerError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NO_STRINGS = [""]  # rclpy takes an empty list for an array of bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What only the node needs, beside the planner's own configuration."""

    autostart: bool = setting(True, "Configure and activate without being told by a lifecycle manager.")
    startup_check_s: float = setting(
        1.0, "How long to look for another planner of this name before activating.", minimum=0.0, maximum=60.0
    )
    client_timeout_s: float = setting(
        5.0, "A client whose heartbeats stop for this long is gone, and its goal ends.", minimum=0.5, maximum=3600.0
    )
    result_memory_s: float = setting(
        60.0, "How long a finished goal's result and segments can still be asked for.", minimum=1.0, maximum=3600.0
    )


def declare(node: Node) -> NodeSettings:
    """Declares every setting as a parameter and returns the node's own ones.

    Raises:
        PlannerError: INVALID_CONFIG if a value given at the start has a wrong type or is out of range.
    """
    try:
        for name, field in [*_fields(NodeSettings), *_fields(PlannerConfig)]:
            node.declare_parameter(name, _to_parameter(field.default), _descriptor(field))
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"parameter refused: {error}") from error
    return NodeSettings(**{name: node.get_parameter(name).value for name, _ in _fields(NodeSettings)})


def read_config(node: Node) -> PlannerConfig:
    """Returns the configuration that the parameters stand for.

    Raises:
        PlannerError: INVALID_CONFIG, naming the parameters that are out of range.
    """
    values = {name: node.get_parameter(name).value for name, _ in _fields(PlannerConfig)}
    return load_config(
        overrides={n: tuple(filter(None, v)) if isinstance(v, list | tuple) else v for n, v in values.items()}
    )


def names() -> set[str]:
    """Returns the names of all parameters of the planner node."""
    return {name for name, _ in [*_fields(NodeSettings), *_fields(PlannerConfig)]}


def _fields(cls: "type[DataclassInstance]", prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    for field in dataclasses.fields(cls):
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            yield from _fields(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field


def _to_parameter(default: object) -> object:
    return (list(default) or _NO_STRINGS) if isinstance(default, tuple) else default


def _descriptor(field: "dataclasses.Field[Any]") -> ParameterDescriptor:
    descriptor = ParameterDescriptor(description=field.metadata["description"])
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    if low is None or high is None:
        return descriptor
    if isinstance(field.default, int):
        descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    else:
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor
