"""vLLM under our scheduler and under its own: resuming, the cost of a decision, urgent requests among busy slots."""

import random
import statistics
from dataclasses import dataclass, field, replace
from typing import Any

from llm_planner.backends.vllm.backend import VllmBackend, open_backend
from llm_planner.backends.vllm.engine import EngineSettings
from llm_planner.bench.vllm_stock import ScheduleWatch, StockVllm
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import SchedulerConfig
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import SchedulerOutput, Sequence, StepOutput
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler

LONG = "start: /[a-z ]{600}/\n"
"""A grammar that lets nobody end early."""
PROMPT_TOKENS = 64
WARM_UP_STEPS = 20
SLEEP_STEPS = 10
NUM_RESUMES = 20
NUM_DECISIONS = 60
URGENT_TOKENS = 12
BUSY_TOKENS = 200


@dataclass(slots=True)
class _Costs:
    """Seconds per step, one entry a step."""

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
    """Measures one vLLM after the other in the same run.

    Args:
        settings: What vLLM is started with.
        num_slots: Busy generations when an urgent one arrives.
        num_requests: Of the cost of a decision.
        seed: Of prompts.
    """

    def __init__(self, settings: EngineSettings, *, num_slots: int = 8, num_requests: int = 64, seed: int = 0) -> None:
        self._settings = settings
        self._num_slots = num_slots
        self._num_requests = num_requests
        self._rng = random.Random(seed)
        self._clock: Clock = MonotonicClock()

    def run(self) -> dict[str, Any]:
        """Returns the figures; times in milliseconds."""
        backend = open_backend(self._settings)
        resume = self._resume(backend)
        cost = self._cost(backend)
        ours = self._urgent_ours(backend)
        device, model = backend.info.device, backend.info.model
        backend.close()
        stock = self._urgent_stock()
        return {
            "model": model,
            "device": device,
            "num_slots": self._num_slots,
            "num_requests": self._num_requests,
            "resume": resume,
            "decision": cost,
            "urgent_ms": {"ours": ours, "stock_priority": stock},
        }

    # --- Resuming

    def _resume(self, backend: VllmBackend) -> dict[str, float]:
        """Compares the steps in which a suspended request goes on with those in which nobody does."""
        names = ["a", "b", "c", "d"]
        self._begin(backend, names)
        tokens_s: list[float] = []
        resumes_s: list[float] = []
        for turn in range(NUM_RESUMES):
            sleeper = names[turn % len(names)]
            for _ in range(SLEEP_STEPS):
                others = [name for name in names if name != sleeper]
                tokens_s.append(backend.execute(_decode(others, asleep=(sleeper,))).duration_s)
            resumes_s.append(self._until_token(backend, sleeper, names))
        backend.execute(SchedulerOutput(release=tuple(names)))
        token_s, resume_s = statistics.median(tokens_s), statistics.median(resumes_s)
        return {"inter_token_ms": 1e3 * token_s, "resume_ms": 1e3 * resume_s, "ratio": resume_s / token_s}

    def _until_token(self, backend: VllmBackend, name: str, names: list[str]) -> float:
        start_s = self._clock.now_s()
        while name not in backend.execute(_decode(names)).token_ids:
            pass
        return self._clock.now_s() - start_s

    def _begin(self, backend: VllmBackend, names: list[str]) -> None:
        """Computes prompts, and decodes for a while."""
        new = tuple(self._sequence(name) for name in names)
        backend.execute(SchedulerOutput(new=new, num_scheduled_tokens=dict.fromkeys(names, PROMPT_TOKENS)))
        for _ in range(WARM_UP_STEPS):
            backend.execute(_decode(names))

    def _sequence(self, name: str) -> Sequence:
        prompt = tuple(self._rng.randrange(10, 200) for _ in range(PROMPT_TOKENS))
        return Sequence(request_id=name, prompt_token_ids=prompt, grammar=LONG)

    # --- The cost of a decision

    def _cost(self, backend: VllmBackend) -> dict[str, float]:
        """Times every part of ours in a step, and vLLM's own schedule with and without us, in turn."""
        scheduler = self._scheduler(backend, self._num_requests)
        for i in range(self._num_requests):
            scheduler.add(self._generation(f"r{i}", Urgency.NORMAL, BUSY_TOKENS))
        costs, steps_s = _Costs(), list[float]()
        watched = ScheduleWatch(backend, self._clock)
        for turn in range(WARM_UP_STEPS + NUM_DECISIONS):
            watched.is_stock = turn % 2 == 1 and turn >= WARM_UP_STEPS
            decision_s, output = self._step(backend, scheduler)
            if turn < WARM_UP_STEPS:
                continue
            (costs.stock_s if watched.is_stock else costs.ours_s).append(watched.schedule_s)
            costs.decision_s.append(decision_s)
            costs.handover_s.append(output.duration_s - watched.step_s)
            steps_s.append(decision_s + output.duration_s)
        watched.restore()
        self._end(backend, scheduler)
        return {
            "step_ms": 1e3 * statistics.median(steps_s),
            "decision_ms": 1e3 * statistics.median(costs.decision_s),
            "handover_ms": 1e3 * statistics.median(costs.handover_s),
            "schedule_ms": 1e3 * statistics.median(costs.ours_s),
            "stock_schedule_ms": 1e3 * statistics.median(costs.stock_s),
            "added_ms": 1e3 * costs.added_s,
            "share_of_10_ms": costs.added_s / 0.01,
        }

    def _step(self, backend: VllmBackend, scheduler: Scheduler) -> tuple[float, StepOutput]:
        """Runs one step; returns how long our scheduler took, and what came out."""
        began_s = self._clock.now_s()
        scheduled = scheduler.schedule(began_s)
        decided_s = self._clock.now_s()
        output = backend.execute(scheduled)
        executed_s = self._clock.now_s()
        scheduler.update(output.step or scheduled, output, {}, executed_s)
        return decided_s - began_s + self._clock.now_s() - executed_s, output

    def _scheduler(self, backend: VllmBackend, num_slots: int) -> Scheduler:
        config = SchedulerConfig(policy="tardiness", max_num_seqs=num_slots)
        return Scheduler(config, make_policy(config.policy), backend.info)

    def _generation(self, name: str, urgency: Urgency, max_tokens: int) -> Generation:
        request = PlanRequest(
            request_id=name,
            robot_id=name,
            robot_model="bench",
            instruction="-",
            urgency=urgency,
            time_utility=urgency.time_utility,
        )
        now_s = self._clock.now_s()
        return Generation(
            request=request,
            sequence=self._sequence(name),
            arrival_s=now_s,
            execution=ExecutionTracker(now_s, 0.0),
            max_output_tokens=max_tokens,
        )

    def _end(self, backend: VllmBackend, scheduler: Scheduler) -> None:
        for generation in list(scheduler.generations):
            scheduler.end(generation.request_id)
        backend.execute(scheduler.schedule(self._clock.now_s()))

    # --- Urgent, all slots busy

    def _urgent_ours(self, backend: VllmBackend) -> dict[str, float]:
        scheduler = self._scheduler(backend, self._num_slots)
        for i in range(self._num_slots):
            scheduler.add(self._generation(f"busy{i}", Urgency.NORMAL, BUSY_TOKENS))
        for _ in range(WARM_UP_STEPS):
            self._step(backend, scheduler)
        urgent = self._generation("urgent", Urgency.URGENT, URGENT_TOKENS)
        scheduler.add(urgent)
        start_s, first_s = self._clock.now_s(), 0.0
        while urgent.num_output_tokens < URGENT_TOKENS:
            self._step(backend, scheduler)
            first_s = first_s or (self._clock.now_s() - start_s if urgent.num_output_tokens else 0.0)
        whole_s = self._clock.now_s() - start_s
        self._end(backend, scheduler)
        return {"first_token": 1e3 * first_s, "whole": 1e3 * whole_s}

    def _urgent_stock(self) -> dict[str, float]:
        """The same with vLLM's own scheduler and its ``priority`` policy, with as many slots."""
        stock = StockVllm(replace(self._settings, stock_policy="priority", max_live=self._num_slots))
        for i in range(self._num_slots):
            stock.add(self._sequence(f"busy{i}"), max_tokens=BUSY_TOKENS, priority=0)
        for _ in range(WARM_UP_STEPS):
            stock.step()
        stock.add(self._sequence("urgent"), max_tokens=URGENT_TOKENS, priority=-1)
        start_s, first_s, num_tokens = self._clock.now_s(), 0.0, 0
        while num_tokens < URGENT_TOKENS:
            num_tokens += stock.step().get("urgent", 0)
            first_s = first_s or (self._clock.now_s() - start_s if num_tokens else 0.0)
        whole_s = self._clock.now_s() - start_s
        stock.close()
        return {"first_token": 1e3 * first_s, "whole": 1e3 * whole_s}


def _decode(names: list[str], asleep: tuple[str, ...] = ()) -> SchedulerOutput:
    return SchedulerOutput(num_scheduled_tokens=dict.fromkeys(names, 1), asleep=asleep)
