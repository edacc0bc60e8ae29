# SPDX-License-Identifier: Apache-2.0
"""One run: a policy, jobs and step times in virtual time, with a checker that counts memory on its own."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.admission.job import Job
from llm_planner_lab.simulation.admission.algorithms.interface import AdmissionPolicy, Decision
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.step_time import StepLoad, StepTime


@dataclass(slots=True, kw_only=True)
class RunResult:
    """What came of a run.

    Attributes:
        latencies_s: By job: from arrival to its last token, in units or seconds.
        end_s: When the last job ended.
        num_steps: Steps.
        overflows: Steps after which more tokens were held than the memory has.
        cancellations: Running jobs that lost their tokens.
        suspensions: Running jobs whose KV moved to the host.
        moved_tokens: KV that crossed the bus, both ways.
        peak_host_tokens: Most KV on the host at once.
        decision_s: Duration of every decision, if a clock was given.
    """

    latencies_s: list[float]
    end_s: float = 0.0
    num_steps: int = 0
    overflows: int = 0
    cancellations: int = 0
    suspensions: int = 0
    moved_tokens: int = 0
    peak_host_tokens: int = 0
    decision_s: list[float] = field(default_factory=list)

    @property
    def mean_latency_s(self) -> float:
        """Total end-to-end latency, Eq. (2), divided by the number of jobs."""
        return sum(self.latencies_s) / len(self.latencies_s)


class AdmissionRun:
    """Runs all jobs to their end.

    The truth is kept here: what each job holds is counted from its prompt and the tokens that it was given, never from
    what the policy believes.

    Args:
        jobs: The truth.
        intervals: What is predicted for each.
        policy: Decides; receives no true length unless it ``knows_lengths``.
        capacity_tokens: M.
        step_time: Of the engine.
        clock: To time decisions with; None not to.
    """

    def __init__(
        self,
        jobs: Sequence[TrueJob],
        intervals: Sequence[LengthInterval],
        policy: AdmissionPolicy,
        capacity_tokens: int,
        step_time: StepTime,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._jobs, self._policy, self._capacity_tokens, self._step_time = jobs, policy, capacity_tokens, step_time
        self._clock = clock
        self._views = [
            _view(job_id, job, interval, capacity_tokens, knows_length=policy.knows_lengths)
            for job_id, (job, interval) in enumerate(zip(jobs, intervals, strict=True))
        ]
        self._to_come = sorted(range(len(jobs)), key=lambda i: (jobs[i].arrival_s, i), reverse=True)
        self._began: dict[int, int] = {}  # running: the step at which it began
        self._ends: list[tuple[int, int, int]] = []  # heap: step, id, began; stale if it was cancelled since
        self._waiting: set[int] = set()
        self._held_tokens = 0
        self._step, self._now_s = 0, 0.0
        self._result = RunResult(latencies_s=[0.0] * len(jobs))

    def run(self) -> RunResult:
        """Returns what came of it.

        Raises:
            PlannerError: INVALID_CONFIG if the policy runs no job although jobs wait.
        """
        while self._to_come or self._waiting or self._began:
            self._let_in()
            load = self._apply(self._decide())
            if not self._began:
                self._skip_ahead()
                continue
            self._take_step(load)
        self._result.end_s, self._result.num_steps = self._now_s, self._step
        return self._result

    def _let_in(self) -> None:
        while self._to_come and self._jobs[self._to_come[-1]].arrival_s <= self._now_s:
            job_id = self._to_come.pop()
            self._waiting.add(job_id)
            self._policy.submit(self._views[job_id])

    def _decide(self) -> Decision:
        if self._clock is None:
            return self._policy.decide(self._step)
        began_s = self._clock.now_s()
        decision = self._policy.decide(self._step)
        self._result.decision_s.append(self._clock.now_s() - began_s)
        return decision

    def _apply(self, decision: Decision) -> StepLoad:
        """Moves jobs as decided; what cannot be is an error of the policy."""
        result = self._result
        prompts = []
        for job_id in decision.cancel:
            self._held_tokens -= self._jobs[job_id].prompt_tokens + self._step - self._began.pop(job_id)
            self._waiting.add(job_id)
            result.cancellations += 1
        for job_id in decision.start:
            job = self._jobs[job_id]
            self._waiting.remove(job_id)
            prompts.append(job.prompt_tokens)
            self._began[job_id] = self._step
            self._held_tokens += job.prompt_tokens
            heapq.heappush(self._ends, (self._began[job_id] + job.output_tokens, job_id, self._began[job_id]))
        return StepLoad(
            num_seqs=len(self._began),
            kv_tokens=self._held_tokens,
            prompts=tuple(prompts),
        )

    def _skip_ahead(self) -> None:
        """Goes on to the next arrival when no job runs."""
        if not self._to_come:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"{self._policy.name} lets none of {len(self._waiting)} waiting jobs run",
            )
        self._now_s = max(self._now_s, self._jobs[self._to_come[-1]].arrival_s)
        self._step += 1

    def _take_step(self, load: StepLoad) -> None:
        """Gives each running job a token, checks the memory, and ends those that are complete."""
        self._now_s += self._step_time.step_s(load)
        self._step += 1
        self._held_tokens += len(self._began)
        self._result.overflows += self._held_tokens > self._capacity_tokens
        while self._ends and self._ends[0][0] <= self._step:
            _, job_id, began = heapq.heappop(self._ends)
            if self._began.get(job_id) != began:
                continue
            job = self._jobs[job_id]
            del self._began[job_id]
            self._held_tokens -= job.peak_tokens
            self._result.latencies_s[job_id] = self._now_s - job.arrival_s
            self._policy.finish(job_id)


def _view(job_id: int, job: TrueJob, interval: LengthInterval, capacity_tokens: int, *, knows_length: bool) -> Job:
    """Returns what the policy is told; a job that fits alone is no longer than the memory leaves room for."""
    lower, upper = (job.output_tokens, job.output_tokens) if knows_length else interval
    upper = min(upper, capacity_tokens - job.prompt_tokens)
    return Job(job_id=job_id, prompt_tokens=job.prompt_tokens, lower_tokens=lower, upper_tokens=upper)
