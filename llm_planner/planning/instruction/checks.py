# SPDX-License-Identifier: Apache-2.0
"""All that code can say of a plan by the words of its instruction, for one request."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.planning.instruction.ambiguity import AmbiguityCheck
from llm_planner.planning.instruction.amounts import AmountCheck
from llm_planner.planning.instruction.counts import CountCheck
from llm_planner.planning.instruction.directions import DirectionCheck
from llm_planner.planning.instruction.exclusions import ExclusionCheck
from llm_planner.planning.instruction.names import NameCheck
from llm_planner.planning.instruction.omissions import OmissionCheck
from llm_planner.planning.instruction.orders import OrderCheck
from llm_planner.planning.instruction.relations import RelationCheck
from llm_planner.planning.instruction.unasked import UnaskedCheck
from llm_planner.planning.instruction.verbs import VerbCheck
from llm_planner.planning.instruction.verdict import PlanCheck
from llm_planner.planning.instruction.ways import WayCheck
from llm_planner.planning.untrusted import plain_line
from llm_planner.robots.model import RobotModel


def instruction_checks(
    model: RobotModel,
    request: PlanRequest,
    *,
    is_copying: bool = False,
    verbs: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[PlanCheck]:
    """Returns what holds a plan against its instruction.

    Args:
        model: Of the robot.
        request: What was asked. An emergency is asked in few words: its amounts are the robot's to choose, and
            the things that it names are what to keep away from. Acts that it forbids are forbidden.
        is_copying: Whether the model was taught to copy English orders and has nothing of its own to say, as the
            bundled one.
        verbs: With which its training did something to a thing, by robot model; of others no verb is judged.
    """
    is_urgent = request.urgency is Urgency.URGENT
    instruction = plain_line(request.instruction)  # one verdict on all that a model cannot tell apart
    taught = verbs.get(model.name)
    checks: list[PlanCheck] = [
        NameCheck(model, instruction, request.scene, says_only_what_is_asked=is_copying),
        DirectionCheck(model, instruction, is_urgent=is_urgent),
        ExclusionCheck(model, instruction, is_urgent, request.scene),
    ]
    if is_urgent:
        return checks
    return [
        *checks,
        OrderCheck(model, instruction),
        RelationCheck(model, instruction, request.scene),
        *([UnaskedCheck(model, instruction)] if is_copying else []),
        *([] if taught is None else [VerbCheck(model, instruction, request.scene, taught)]),
        AmountCheck(model, instruction),
        AmbiguityCheck(model, instruction, request.scene),
        OmissionCheck(model, instruction, request.scene),
        WayCheck(model, instruction),
        CountCheck(model, instruction),
    ]
