# SPDX-License-Identifier: Apache-2.0
"""One run behind the planner's own scheduler: the same jobs and step times, a live policy, and real KV accounting."""

from collections.abc import Sequence

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo, Clock
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import FinishReason, SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.core.time_utility import TimeUtility
from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import RunResult
from llm_planner_lab.simulation.admission.step_time import UNIT, StepLoad, StepTime

UNIT_S = 0.0214
"""Seconds of a unit: a decode step of Llama-3-8B on an RTX 4090. Policies that look at the clock see these."""
MOST_TOKENS = 10**9
LATENCY_COUNTS = TimeUtility(ert_s=0.0, alpha=-1.0, beta=1.0)
"""Every second costs as much from the arrival on, of every job alike."""


class SchedulerRun:
    """Runs all jobs to their end.

    Every job is a request of a client that waits for its last token, and each gets one token per step while it runs;
    a prompt is computed in the step in which its job starts, as in ``AdmissionRun``. Blocks hold one token. What is in
    the memory is counted here, from what steps compute, free and move, never from what the scheduler believes.

    Args:
        jobs: The truth.
        intervals: What is predicted for each.
        policy: Name of a scheduling policy of the planner.
        capacity_tokens: M.
        step_time: Of the engine.
        can_offload: Whether what yields moves to the host; else it is computed again.
        clock: To time decisions with; None not to.
    """

    def __init__(
        self,
        jobs: Sequence[TrueJob],
        intervals: Sequence[LengthInterval],
        policy: str,
        capacity_tokens: int,
        step_time: StepTime,
        *,
        can_offload: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._jobs, self._intervals, self._step_time, self._clock = jobs, intervals, step_time, clock
        self._capacity_tokens = capacity_tokens
        self._unit_s = UNIT_S if step_time.name == UNIT else 1.0
        info = BackendInfo(
            model="jobs",
            num_kv_blocks=capacity_tokens,
            block_size=1,
            max_model_len=capacity_tokens,
            can_offload=can_offload,
        )
        config = SchedulerConfig(
            policy=policy,
            max_num_seqs=len(jobs),
            max_num_batched_tokens=MOST_TOKENS,
            network_latency_s=0.0,
            batch_limit="off",
        )
        self._scheduler = Scheduler(config, make_policy(policy), info)
        self._to_come = sorted(range(len(jobs)), key=lambda i: (jobs[i].arrival_s, i), reverse=True)
        self._alive: dict[str, Generation] = {}
        self._now = 0.0
        self._held: dict[str, int] = {}  # tokens whose KV is in the memory: counted from the steps alone
        self._host: dict[str, int] = {}  # and on the host
        self._result = RunResult(latencies_s=[0.0] * len(jobs))

    def run(self) -> RunResult:
        """Returns what came of it.

        Raises:
            PlannerError: INVALID_CONFIG if the policy runs no job although jobs wait.
        """
        while self._to_come or self._alive:
            while self._to_come and self._jobs[self._to_come[-1]].arrival_s <= self._now:
                self._add(self._to_come.pop())
            scheduled = self._schedule()
            offloaded, restored = self._move(scheduled)
            if scheduled.num_scheduled_tokens:
                self._take_step(scheduled, offloaded, restored)
            elif self._to_come:
                self._now = max(self._now, self._jobs[self._to_come[-1]].arrival_s)
            else:
                message = f"{self._scheduler.policy.name} lets none of {len(self._alive)} waiting jobs run"
                raise PlannerError(ErrorCode.INVALID_CONFIG, message)
        self._result.end_s = self._now
        return self._result

    @property
    def _now_s(self) -> float:
        return self._now * self._unit_s

    def _add(self, job_id: int) -> None:
        job, (lower, upper), name = self._jobs[job_id], self._intervals[job_id], str(job_id)
        most = self._capacity_tokens - job.prompt_tokens
        request = PlanRequest(
            request_id=name, robot_id=name, robot_model="-", instruction="-", time_utility=LATENCY_COUNTS
        )
        arrival_s = job.arrival_s * self._unit_s
        self._alive[name] = Generation(
            request=request,
            sequence=TokenSequence(request_id=name, prompt_token_ids=(0,) * job.prompt_tokens),
            arrival_s=arrival_s,
            execution=ExecutionTracker(arrival_s, 0.0),
            max_output_tokens=most,
            output_interval=(lower, min(upper, most)),
        )
        self._scheduler.add(self._alive[name])

    def _schedule(self) -> SchedulerOutput:
        if self._clock is None:
            return self._scheduler.schedule(self._now_s)
        began_s = self._clock.now_s()
        scheduled = self._scheduler.schedule(self._now_s)
        self._result.decision_s.append(self._clock.now_s() - began_s)
        return scheduled

    def _move(self, scheduled: SchedulerOutput) -> tuple[list[int], list[int]]:
        """Frees and moves KV as an engine would; returns the tokens of each that leaves, and of each that returns."""
        for request_id in scheduled.release:
            self._held.pop(request_id, None)
            self._host.pop(request_id, None)
        offloaded = {request_id: self._held.pop(request_id) for request_id in scheduled.offload}
        self._host |= offloaded
        restored = {request_id: self._host.pop(request_id) for request_id in scheduled.restore}
        self._held |= restored
        return list(offloaded.values()), list(restored.values())

    def _take_step(self, scheduled: SchedulerOutput, offloaded: list[int], restored: list[int]) -> None:
        """Gives each scheduled job a token, checks the memory, and ends those that are complete."""
        result, alive, num_tokens = self._result, self._alive, scheduled.num_scheduled_tokens
        prompts = [n for r, n in num_tokens.items() if not alive[r].is_decoding]
        before_tokens = sum(self._held.get(r, 0) for r in num_tokens)
        load = StepLoad(
            num_seqs=len(num_tokens),
            kv_tokens=before_tokens + sum(prompts),
            prompts=tuple(prompts),
            offloaded=tuple(offloaded),
            restored=tuple(restored),
        )
        self._now += self._step_time.step_s(load)
        result.num_steps += 1
        result.suspensions += len(offloaded)
        result.moved_tokens += sum(offloaded) + sum(restored)
        result.peak_host_tokens = max(result.peak_host_tokens, sum(self._host.values()))
        ended = [r for r in num_tokens if alive[r].num_output_tokens + 1 == self._jobs[int(r)].output_tokens]
        output = StepOutput(
            token_ids=dict.fromkeys(num_tokens, (0,)),
            finished=dict.fromkeys(ended, FinishReason.STOP),
            duration_s=self._step_time.step_s(load) * self._unit_s,
        )
        self._scheduler.update(scheduled, output, {}, self._now_s)
        for request_id, count in num_tokens.items():
            self._held[request_id] = self._held.get(request_id, 0) + count
        result.overflows += sum(self._held.values()) > self._capacity_tokens
        for request_id in ended:
            job = self._jobs[int(request_id)]
            result.latencies_s[int(request_id)] = self._now - job.arrival_s
            result.cancellations += alive.pop(request_id).num_preemptions
            self._scheduler.end(request_id)
