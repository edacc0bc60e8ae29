# SPDX-License-Identifier: Apache-2.0
"""The service ``~/get_capacity``: how many more robots of one kind the planner can hold."""

from collections import Counter
from collections.abc import Callable

from rclpy.node import Node

from llm_planner.assembly import build_library
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.room import Objective, Room, build_room
from llm_planner.serving.goal_book import GoalBook
from llm_planner.srv import GetCapacity

SLO_S, SHARE = 1.0, 0.95
"""What 0 in a request stands for."""


class CapacityService:
    """Answers from the curves of the engine's profile and the robots that are known: an answer takes milliseconds.

    Args:
        node: Owner of the service.
        config: Returns the planner's configuration.
        book: Which robots are known.
    """

    def __init__(self, node: Node, config: Callable[[], PlannerConfig], book: GoalBook) -> None:
        self._config = config
        self._book = book
        self._room: tuple[PlannerConfig, Room] | None = None
        self._service = node.create_service(GetCapacity, "~/get_capacity", self._on_request)

    def _on_request(self, request: GetCapacity.Request, response: GetCapacity.Response) -> GetCapacity.Response:
        known = Counter(self._book.robots().values())
        response.num_active = sum(known.values())
        try:
            objective = Objective(slo_s=request.slo_s or SLO_S, share=request.share or SHARE)
            left = self._current_room().left(known, request.robot_model, objective)
        except PlannerError as error:
            response.error_code, response.error_msg = int(error.code), error.message
            return response
        response.error_code = int(ErrorCode.NONE)
        response.num_robots, response.utility = left.num_robots, left.utility
        response.num_robots_low, response.num_robots_high = left.num_robots_low, left.num_robots_high
        response.confidence = left.confidence
        return response

    def _current_room(self) -> Room:
        config = self._config()
        if self._room is None or self._room[0] is not config:
            room = build_room(config, build_library(config))
            self._room = (config, room)
        return self._room[1]
