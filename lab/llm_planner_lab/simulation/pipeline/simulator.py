# SPDX-License-Identifier: Apache-2.0
"""Runs a workload through a pipeline in virtual time."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.simulation.pipeline.micro_batch import MicroBatch
from llm_planner_lab.simulation.pipeline.request import PipelineRequest, Sequence
from llm_planner_lab.simulation.pipeline.scheduler import PipelineScheduler
from llm_planner_lab.simulation.pipeline.stages import Passage, Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """What became of a workload.

    Attributes:
        completion_s: From the first arrival until the last token.
        busy_s: Of each stage.
        num_micro_batches: That were computed.
        num_preemptions: Sequences that lost their KV.
        num_recomputed_tokens: Because of that.
        sequences: In the order of their requests.
        passages: If they were recorded.
    """

    completion_s: float
    busy_s: tuple[float, ...]
    num_micro_batches: int
    num_preemptions: int
    num_recomputed_tokens: int
    sequences: tuple[Sequence, ...]
    passages: tuple[Passage, ...]

    @property
    def processing_s(self) -> float:
        """Proc of section 5.2: seconds that a stage computes, on the mean over the stages."""
        return sum(self.busy_s) / len(self.busy_s)

    @property
    def idle_s(self) -> float:
        """Idle of section 5.2: seconds that a stage does not compute; in Table 1 too, Proc and Idle make Completion."""
        return self.completion_s - self.processing_s


def simulate(requests: Iterable[PipelineRequest], scheduler: PipelineScheduler, stages: Stages) -> PipelineRun:
    """Returns what becomes of ``requests``.

    The loop of vLLM's engine core: micro-batches are built as long as the scheduler has one; then the oldest is waited
    for, and requests that arrive meanwhile are seen afterwards.

    Raises:
        PlannerError: PROMPT_TOO_LONG if a request waits that will never fit into the memory.
    """
    arrivals = deque(sorted(requests, key=lambda request: (request.arrival_s, request.request_id)))
    began_s = now_s = arrivals[0].arrival_s if arrivals else 0.0
    sequences: dict[int, Sequence] = {}
    in_flight: deque[tuple[float, MicroBatch]] = deque()
    num_micro_batches = 0
    while arrivals or scheduler.has_work:
        while arrivals and arrivals[0].arrival_s <= now_s:
            request = arrivals.popleft()
            sequences[request.request_id] = scheduler.add(request)
        batch = scheduler.schedule(now_s, len(in_flight))
        if batch is not None:
            in_flight.append((stages.send(now_s, batch.num_tokens, batch.kv_tokens, len(batch.members)), batch))
            num_micro_batches += 1
        elif in_flight:
            back_s, batch = in_flight.popleft()
            now_s = max(now_s, back_s)
            scheduler.complete(batch, now_s)
        elif arrivals:
            now_s = arrivals[0].arrival_s
        else:
            raise PlannerError(
                ErrorCode.PROMPT_TOO_LONG,
                "a request never fits into the KV memory of the pipeline; shorten it or use more stages",
            )
    return PipelineRun(
        completion_s=now_s - began_s,
        busy_s=tuple(stages.busy_s),
        num_micro_batches=num_micro_batches,
        num_preemptions=scheduler.num_preemptions,
        num_recomputed_tokens=scheduler.num_recomputed_tokens,
        sequences=tuple(sequences[number] for number in sorted(sequences)),
        passages=tuple(stages.passages),
    )
