# SPDX-License-Identifier: Apache-2.0
"""What robots ask of a server: one table per robot model, computed from traces (``llm-planner capacity demand``)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.core.time_utility import TimeUtility
from llm_planner.documents import DocumentError, json_of, read_yaml
from llm_planner.robots.record import Record, require

Fleet = Mapping[str, int]
"""How many robots of which model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand(Record):
    """One kind of request of a fleet.

    Attributes:
        per_s: How many come per second.
        num_prompt_tokens: That are computed for it: the static part of a prompt is shared.
        first_tokens: Until the robot can begin.
        num_tokens: Of the whole plan.
        time_utility: What a response is worth.
    """

    per_s: float
    num_prompt_tokens: float
    first_tokens: int
    num_tokens: int
    time_utility: TimeUtility

    def __post_init__(self) -> None:
        sizes = (self.per_s, self.num_prompt_tokens, self.first_tokens, self.num_tokens)
        require(all(math.isfinite(size) and size > 0 for size in sizes), "a demand has positive finite numbers")

    def scaled(self, factor: float) -> "Demand":
        """Returns the demand of ``factor`` times as many robots."""
        return replace(self, per_s=self.per_s * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandTable(Record):
    """What one robot of a model asks for on average.

    Attributes:
        robot_model: The file is ``<robot_model>.yaml``.
        description: Where the numbers come from.
        demands: By kind of request.
    """

    robot_model: str
    description: str
    demands: tuple[Demand, ...]
    schema_version: Literal[1] = 1

    def __post_init__(self) -> None:
        require(len(self.demands) > 0, "a table holds at least one demand")


_ADAPTER = TypeAdapter(DemandTable)


def load_demands(robot_model: str) -> tuple[Demand, ...]:
    """Returns what one robot of a model asks for.

    Raises:
        PlannerError: INVALID_CONFIG if there is no table for the model, or the table is not as it should be.
    """
    directory = share_dir() / "profiles" / "demands"
    known = {path.stem: path for path in sorted(directory.glob("*.yaml"))}
    if robot_model not in known:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"there is no table of what a {robot_model} asks for; there is one for {', '.join(known)}",
        )
    path = known[robot_model]
    try:
        return _ADAPTER.validate_json(json_of(read_yaml(path))).demands
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc'])) or 'table'}: {e['msg']}" for e in error.errors())
        raise PlannerError(ErrorCode.INVALID_FILE, f"demands {path}: {'; '.join(problems)}") from error
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"demands {path} {error}") from error


def write_demands(table: DemandTable, path: Path) -> None:
    """Writes a table, all digits of its numbers included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(_as_document(table), sort_keys=False, width=120), encoding="utf-8")


def _as_document(table: DemandTable) -> dict[str, object]:
    return {**asdict(table), "demands": [asdict(demand) for demand in table.demands]}
