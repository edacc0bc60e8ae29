# SPDX-License-Identifier: Apache-2.0
"""Preparers of prompts that know less of a task than the planner's own: what baselines are given."""

from llm_planner.core.request import PlanRequest
from llm_planner.robots.model import RobotModel
from llm_planner.serving.plan_preparer import PlanPreparer


class SparablePreparer(PlanPreparer):
    """Lets any scene be left out or evicted: whether that is done is a matter of the approach."""

    def can_spare(self, model: RobotModel, request: PlanRequest) -> bool:
        """Returns True: who always evicts or leaves out a share knows nothing of a task."""
        return True


class WholeScenePreparer(SparablePreparer):
    """Shows a model all of a scene, too."""

    def as_shown(self, model: RobotModel, request: PlanRequest) -> PlanRequest:
        """Returns the request as it is."""
        return request
