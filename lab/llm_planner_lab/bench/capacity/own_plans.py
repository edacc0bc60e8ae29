# SPDX-License-Identifier: Apache-2.0
"""Fleets as a model plans them: the requests of a fleet with that model's own plans, prompts and tokens."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.room import Fleet
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.survey import Survey, survey
from llm_planner_lab.simulation.capacity.fleet import SAMPLE, SAMPLE_S, fleet_trace
from llm_planner_lab.simulation.trace import Trace


class OwnPlans:
    """What a model makes of a sample of each robot model's requests; fleets of any size draw from it.

    Requests that the model cannot plan are not in the sample, and a fleet's requests are as many as ever: those that
    it can plan stand for the others. Requests come when ``fleet_trace`` says.

    Args:
        planner: Its model is asked, alone, once per robot model.
        robots: Robot models.
        note: Receives one line per robot model: how many requests the model can plan, and what becomes of the others.
        on_progress: Receives what is going on, and which share of it is done.
    """

    def __init__(
        self,
        planner: PlannerConfig,
        robots: RobotLibrary,
        note: Callable[[str], None],
        on_progress: Callable[[str, float], None] = lambda _what, _share: None,
    ) -> None:
        self._planner = planner
        self._robots = robots
        self._note = note
        self._on_progress = on_progress
        self._samples: dict[str, Survey] = {}

    def survey(self, fleet: Fleet, seed: int, duration_s: float) -> Survey:
        """Returns what a fleet asks for in this time.

        Raises:
            PlannerError: INVALID_CONFIG if the model can plan nothing of what a robot model asks for.
        """
        asked = fleet_trace(fleet, seed, duration_s, self._robots)
        rng = random.Random(f"own plans/{seed}")
        rows, bounds_s = [], {}
        for request in asked.requests:
            sample = self._sample(request.robot_model)
            if not sample.trace.requests:
                message = f"{self._planner.engine.model} plans nothing that {request.robot_model} is asked for"
                raise PlannerError(ErrorCode.INVALID_CONFIG, message)
            row = rng.choice(sample.trace.requests)
            bounds_s[request.request_id] = sample.bounds_s[row.request_id]
            rows.append(replace(row, time_s=request.time_s, request_id=request.request_id, robot_id=request.robot_id))
        devices = {sample.device for sample in self._samples.values()}
        return Survey(
            trace=replace(asked, requests=tuple(rows)),
            bounds_s=bounds_s,
            device=" and ".join(sorted(devices)),
            num_unplanned={},
        )

    def can_plan(self, fleet: Fleet) -> bool:
        """Returns whether the model can plan something of what each robot model of a fleet is asked for."""
        return all(self._sample(name).trace.requests for name in fleet)

    def trace(self, fleet: Fleet, seed: int, duration_s: float) -> Trace:
        """Returns the requests of ``survey``."""
        return self.survey(fleet, seed, duration_s).trace

    def _sample(self, robot_model: str) -> Survey:
        if robot_model not in self._samples:
            asked = fleet_trace({robot_model: SAMPLE}, 0, SAMPLE_S, self._robots)
            found = survey(asked, self._planner, self._robots, partial(self._on_progress, f"{robot_model}: plans"))
            name, why = self._planner.engine.model, dict(found.num_unplanned)
            planned = f"{len(found.trace.requests)} of {len(asked.requests)}"
            self._note(f"{name} plans {planned} requests of {robot_model}" + (f", not {why}" if why else ""))
            self._samples[robot_model] = found
        return self._samples[robot_model]
