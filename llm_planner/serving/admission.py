# SPDX-License-Identifier: Apache-2.0
"""Admission: may this request come in? Pure, fast, and every "no" has its number."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import SegmentReport
from llm_planner.core.validation import (
    MAX_NUMBER,
    require_client_id,
    require_max_tokens,
    require_robot_id,
    require_text,
    require_time_budget,
)

MAX_REASON_CHARACTERS = 500
MAX_SAID = 16
"""Texts that one segment may say."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Checks requests at admission, before any resource is spent on them.

    Attributes:
        config: Limits.
        robot_models: Names of the known robot models.
    """

    config: PlannerConfig
    robot_models: Collection[str]

    def check(self, request: PlanRequest, unfinished: Mapping[str, PlanRequest]) -> PlanRequest | None:
        """Returns the unfinished request that this one supersedes, if any.

        Args:
            request: The one to be admitted.
            unfinished: Request id to request.

        Raises:
            PlannerError: A 1xx code if the request is refused.
        """
        self._check_names(request)
        require_text(request.instruction, "instruction", self.config.max_instruction_bytes)
        require_text(request.scene, "scene", self.config.max_scene_bytes)
        require_text(request.plan, "plan", self.config.max_instruction_bytes)
        if not request.instruction.strip():
            raise PlannerError(ErrorCode.EMPTY_INSTRUCTION, "the instruction is empty; say what the robot shall do")
        _check_numbers(request)
        if request.request_id in unfinished:
            raise PlannerError(ErrorCode.ROBOT_BUSY, f"goal {request.request_id} is being planned already")
        previous = next((r for r in unfinished.values() if r.robot_id == request.robot_id), None)
        if previous is None:
            self._check_room(request, unfinished.values())
        if previous is not None and not request.supersedes(previous):
            raise PlannerError(
                ErrorCode.ROBOT_BUSY,
                f"robot {request.robot_id} has the unfinished goal {previous.request_id}; cancel it, or send an urgent "
                "goal that is not plan_only if that one is not urgent",
            )
        return previous

    def bounded(self, report: SegmentReport) -> SegmentReport:
        """Returns what the planner reads of a report: texts that are few, short and can be encoded, a finite pose.

        A robot whose pose is not finite may be anywhere.
        """
        situation = report.situation
        if situation is not None:
            scene = _encodable(situation.scene[: self.config.max_scene_bytes])
            situation = replace(situation, scene=scene, pose=situation.pose if _is_somewhere(situation.pose) else None)
        value, said = report.value, report.said[:MAX_SAID]
        return replace(
            report,
            value=_short(value) if isinstance(value, str) else value,
            reason=_short(report.reason),
            said=tuple(_short(text) for text in said),
            situation=situation,
        )

    @property
    def num_urgent_places(self) -> int:
        """How many of the places for unfinished goals are kept for urgent ones."""
        return int(self.config.urgent_share * self.config.max_queued)

    def _check_room(self, request: PlanRequest, unfinished: Collection[PlanRequest]) -> None:
        """Refuses a goal for which there is no place.

        The last places are kept for urgent goals: no other goal takes them, and an urgent one is taken whenever fewer
        urgent ones are unfinished than there are such places.
        """
        max_goals, num_kept = self.config.max_queued, self.num_urgent_places
        if request.urgency is Urgency.URGENT:
            if sum(other.urgency is Urgency.URGENT for other in unfinished) < num_kept:
                return
        else:
            max_goals -= num_kept
        if len(unfinished) >= max_goals:
            raise PlannerError(
                ErrorCode.OVERLOADED,
                f"{len(unfinished)} goals are unfinished of at most {max_goals} ({num_kept} more places are kept for "
                "urgent goals); try again later",
            )
        num_own = sum(other.client_id == request.client_id for other in unfinished) if request.client_id else 0
        if num_own >= self.config.max_goals_per_client:
            raise PlannerError(
                ErrorCode.TOO_MANY_GOALS,
                f"client {request.client_id} has {num_own} unfinished goals, of at most "
                f"{self.config.max_goals_per_client}; wait until some have ended, or cancel them",
            )

    def _check_names(self, request: PlanRequest) -> None:
        require_robot_id(request.robot_id)
        require_client_id(request.client_id)
        if request.robot_model not in self.robot_models:
            known = ", ".join(sorted(self.robot_models)) or "none"
            raise PlannerError(
                ErrorCode.UNKNOWN_ROBOT_MODEL, f"no robot model {request.robot_model[:80]!r}; known are: {known}"
            )


def _is_somewhere(pose: Pose | None) -> bool:
    return pose is None or all(abs(n) <= MAX_NUMBER for n in (pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg))


def _short(text: str) -> str:
    return _encodable(text[:MAX_REASON_CHARACTERS])


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _check_numbers(request: PlanRequest) -> None:
    require_time_budget(request.time_budget_s)
    utility = request.time_utility
    if max(utility.ert_s, -utility.alpha, utility.beta) > MAX_NUMBER:
        raise PlannerError(ErrorCode.INVALID_TIME_UTILITY, f"{utility} has a number above {MAX_NUMBER:g}")
    pose = request.start_pose
    if not _is_somewhere(pose):
        raise PlannerError(
            ErrorCode.INVALID_POSE, f"start_pose {pose} is not finite, or nowhere; leave it out if it is unknown"
        )
    require_max_tokens(request.max_tokens)
