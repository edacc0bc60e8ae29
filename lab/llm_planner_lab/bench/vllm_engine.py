# SPDX-License-Identifier: Apache-2.0
"""vLLM under our scheduler and under its own: resuming, the cost of a decision, urgent requests among busy slots."""

import random
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.core.clock import MonotonicClock, ProcessorClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.step import SchedulerOutput
from llm_planner_lab.bench.turns import rotated
from llm_planner_lab.bench.vllm_drive import PROMPT_TOKENS, Drive, make_sequence
from llm_planner_lab.bench.vllm_stock import ScheduleWatch, stock

WARM_UP_STEPS = 20
SUSPENDED_STEPS = 8
NUM_RESUMES = 24
NUM_DECISIONS = 80
NUM_URGENT = 3
URGENT_TOKENS = 12
BUSY_TOKENS = (60, 200)
"""Shortest and longest generation of those that are busy when an urgent one arrives."""
TIMEOUT_STEPS = 5000
OURS, FCFS, PRIORITY, ALONE = "ours", "stock_fcfs", "stock_priority", "alone"

Progress = Callable[[str, float], None]


@dataclass(slots=True)
class _Costs:
    """Processor seconds per step, one entry a step."""

    decision_s: list[float] = field(default_factory=list)  # our scheduler: schedule and update
    handover_s: list[float] = field(default_factory=list)  # the backend around vLLM's step
    ours_s: list[float] = field(default_factory=list)  # vLLM's schedule with our mixin
    stock_s: list[float] = field(default_factory=list)  # vLLM's schedule without

    @property
    def added_s(self) -> float:
        """Median seconds that a step takes longer because of us."""
        m = statistics.median
        return m(self.decision_s) + m(self.handover_s) + m(self.ours_s) - m(self.stock_s)


class VllmBench:
    """Measures one vLLM under one scheduler after the other.

    Args:
        backend: Running, with room for ``num_requests`` and for twice ``num_slots``.
        num_slots: Busy generations when an urgent one arrives; as many more wait.
        num_requests: Of the cost of a decision.
        seed: Of prompts.
        on_progress: Receives what is going on, and which share of it is done.
    """

    def __init__(
        self,
        backend: VllmBackend,
        *,
        num_slots: int = 8,
        num_requests: int = 64,
        seed: int = 0,
        on_progress: Progress = lambda _what, _share: None,
    ) -> None:
        self._backend = backend
        self._num_slots = num_slots
        self._num_requests = num_requests
        self._rng = random.Random(seed)
        self._on_progress = on_progress
        self._clock = MonotonicClock()

    def run(self) -> dict[str, Any]:
        """Returns the figures; times in milliseconds."""
        return {
            "num_slots": self._num_slots,
            "num_requests": self._num_requests,
            "resume": self._resume(),
            "decision": self._cost(),
            "urgent": self._urgent(),
        }

    # --- Resuming

    def _resume(self) -> dict[str, float]:
        """Compares the step in which a suspended request goes on with steps in which all of them just go on."""
        backend, names = self._backend, ["a", "b", "c", "d"]
        new = tuple(make_sequence(name, self._rng) for name in names)
        backend.execute(SchedulerOutput(new=new, num_scheduled_tokens=dict.fromkeys(names, PROMPT_TOKENS)))
        for _ in range(WARM_UP_STEPS):
            backend.execute(_decode(names))
        tokens_s: list[float] = []
        resumes_s: list[float] = []
        for turn in range(NUM_RESUMES):
            self._on_progress("resuming", turn / NUM_RESUMES)
            suspended = names[turn % len(names)]
            for _ in range(SUSPENDED_STEPS):
                backend.execute(_decode([name for name in names if name != suspended], suspended=(suspended,)))
            resumes_s.append(self._until_token(suspended, names))
            tokens_s += [backend.execute(_decode(names)).duration_s for _ in range(SUSPENDED_STEPS)]
        backend.execute(SchedulerOutput(release=tuple(names)))
        token_s, resume_s = statistics.median(tokens_s), statistics.median(resumes_s)
        return {"inter_token_ms": 1e3 * token_s, "resume_ms": 1e3 * resume_s, "ratio": resume_s / token_s}

    def _until_token(self, name: str, names: list[str]) -> float:
        start_s = self._clock.now_s()
        for _ in range(TIMEOUT_STEPS):
            if name in self._backend.execute(_decode(names)).token_ids:
                return self._clock.now_s() - start_s
        raise PlannerError(ErrorCode.ENGINE_FAILED, f"request {name} never went on")

    # --- The cost of a decision

    def _cost(self) -> dict[str, float]:
        """Times every part of ours in a step, and vLLM's own schedule with and without us, in turn: processor time."""
        drive, processor = Drive(self._backend, self._rng, self._num_requests), ProcessorClock()
        for i in range(self._num_requests):
            drive.add(f"r{i}", 2 * NUM_DECISIONS)
        costs, steps_s = _Costs(), list[float]()
        watched = ScheduleWatch(self._backend, processor)
        for turn in range(WARM_UP_STEPS + NUM_DECISIONS):
            self._on_progress("deciding", turn / (WARM_UP_STEPS + NUM_DECISIONS))
            watched.is_stock = turn % 2 == 1 and turn >= WARM_UP_STEPS
            began_s = processor.now_s()
            decision_s, output = drive.step(processor)
            whole_s = processor.now_s() - began_s
            if turn >= WARM_UP_STEPS:
                (costs.stock_s if watched.is_stock else costs.ours_s).append(watched.schedule_s)
                costs.decision_s.append(decision_s)
                costs.handover_s.append(whole_s - decision_s - watched.step_s)
                steps_s.append(output.duration_s)
        watched.restore()
        drive.end()
        return {
            "step_ms": 1e3 * statistics.median(steps_s),
            "decision_ms": 1e3 * statistics.median(costs.decision_s),
            "handover_ms": 1e3 * statistics.median(costs.handover_s),
            "schedule_ms": 1e3 * statistics.median(costs.ours_s),
            "stock_schedule_ms": 1e3 * statistics.median(costs.stock_s),
            "added_ms": 1e3 * costs.added_s,
            "share_of_10_ms": costs.added_s / 0.01,
        }

    # --- Urgent, all slots busy

    def _urgent(self) -> dict[str, dict[str, float]]:
        """Returns how long an urgent request takes under each scheduler, which take turns.

        Medians, to its first token and to its last, in steps and ms.
        """
        names = (OURS, FCFS, PRIORITY, ALONE)
        tries: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for turn in range(NUM_URGENT):
            for name in rotated(names, turn):
                self._on_progress(f"urgent requests: {name}", turn / NUM_URGENT)
                with self._scheduled_by(name):
                    tries[name].append(self._urgent_once(name))
        return {
            name: {key: statistics.median(one[key] for one in ones) for key in ones[0]} for name, ones in tries.items()
        }

    def _scheduled_by(self, name: str) -> AbstractContextManager[None]:
        if name in {OURS, ALONE}:
            return nullcontext()
        policy = "fcfs" if name == FCFS else "priority"
        return stock(self._backend, policy, self._num_slots, lambda request_id: -(request_id == "urgent"))

    def _urgent_once(self, name: str) -> dict[str, float]:
        is_ours = name in {OURS, ALONE}
        drive = Drive(self._backend, self._rng, self._num_slots if is_ours else None)
        shortest, longest = BUSY_TOKENS
        for i in range(0 if name == ALONE else 2 * self._num_slots):
            share = (i % self._num_slots) / max(1, self._num_slots - 1)
            drive.add(f"busy{i}", round(shortest + share * (longest - shortest)))
        for _ in range(WARM_UP_STEPS):
            drive.step()
        start_s = self._clock.now_s()
        urgent = drive.add("urgent", URGENT_TOKENS, Urgency.URGENT)
        first, num_steps, num_calls = dict[str, float](), 0, 0
        while urgent.num_output_tokens < URGENT_TOKENS:
            if (num_calls := num_calls + 1) > TIMEOUT_STEPS:
                raise PlannerError(ErrorCode.ENGINE_FAILED, f"the urgent request was never served ({name})")
            _, output = drive.step()
            num_steps += output.step is None or bool(output.step.num_scheduled_tokens)
            if urgent.num_output_tokens and not first:
                first = {"first_token_steps": num_steps, "first_token_ms": 1e3 * (self._clock.now_s() - start_s)}
        whole_ms = 1e3 * (self._clock.now_s() - start_s)
        drive.end()
        return first | {"whole_steps": num_steps, "whole_ms": whole_ms}


def _decode(names: list[str], suspended: tuple[str, ...] = ()) -> SchedulerOutput:
    return SchedulerOutput(num_scheduled_tokens=dict.fromkeys(names, 1), suspended=suspended)
