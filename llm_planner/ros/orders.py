# SPDX-License-Identifier: Apache-2.0
"""An instruction to a robot as its request to the planner."""

import uuid
from collections.abc import Collection

from llm_planner.core.pose import Pose
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest, Urgency
from llm_planner.core.validation import require_time_budget
from llm_planner.robots.model import RobotModel
from llm_planner.robots.skill_names import skill_names
from llm_planner.ros import conversions
from llm_planner.srv import Instruct

TIMEOUT_MARGIN_S = 0.02  # for what the network takes beyond its usual delay


def to_request(
    order: Instruct.Request,
    *,
    robot_id: str,
    model: RobotModel,
    view: str,
    pose: Pose,
    unsupported_skills: Collection[str] = (),
) -> PlanRequest:
    """Returns what the robot asks of the planner.

    Args:
        order: What it was told.
        robot_id: The robot that asks.
        model: Of the robot.
        view: What it sees, for an order without a scene.
        pose: Where it is.
        unsupported_skills: Skills of its model that it cannot carry out.

    Raises:
        PlannerError: INVALID_URGENCY, INVALID_TIME_BUDGET, or INVALID_ARGUMENT for skills that the model does not have.
    """
    urgency = conversions.to_enum(Urgency, order.urgency)
    return PlanRequest(
        request_id=uuid.uuid4().hex,
        robot_id=robot_id,
        robot_model=model.name,
        instruction=order.instruction,
        scene=order.scene or view,
        urgency=urgency,
        time_budget_s=require_time_budget(order.time_budget_s or None),
        overrun=conversions.to_enum(OverrunStrategy, order.overrun),
        budget_scope=conversions.to_enum(BudgetScope, order.budget_scope),
        allowed_skills=frozenset(skill_names(model, order.allowed_skills, "allowed_skills")) or None,
        plan=order.plan,
        plan_only=order.plan_only,
        start_pose=pose,
        unsupported_skills=tuple(sorted(unsupported_skills)),
        takes_open_blocks=True,
    )


def answer_timeout_s(request: PlanRequest, model: RobotModel) -> float | None:
    """Returns how long an emergency may go unanswered: its budget, and the way there and back; None for ever.

    A plan that is only to be shown may: nothing moves for it, whether it comes or not.
    """
    if request.urgency is not Urgency.URGENT or request.time_budget_s is None or request.plan_only:
        return None
    return request.time_budget_s + 2 * model.network.latency_s.value + TIMEOUT_MARGIN_S


def again(order: Instruct.Request) -> Instruct.Request:
    """Returns the order of a robot that asks again in the world where it is."""
    return Instruct.Request(
        instruction=order.instruction,
        urgency=order.urgency,
        time_budget_s=order.time_budget_s,
        overrun=order.overrun,
        budget_scope=order.budget_scope,
        allowed_skills=order.allowed_skills,
        plan_only=order.plan_only,
        tag=order.tag,
    )
