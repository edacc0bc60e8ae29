# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench decision``: how long one scheduling decision takes with many requests in the queue."""

import random
import time
from collections.abc import Iterable
from typing import Any

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import SchedulerOutput, Sequence, StepOutput
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.checkout import commit

NUM_KV_BLOCKS = 1_000_000


def run_decision(num_queued: Iterable[int], policy: str, num_decisions: int = 400, seed: int = 0) -> dict[str, Any]:
    """Returns ``{"decision_ms": {"8": {"p50", "p99"}, ...}}``: ``schedule`` with each number of ready generations.

    All slots are busy and stay busy: the decision that costs most, since it also decides which request is preempted.
    """
    decisions = {str(n): _measure(n, policy, num_decisions, seed) for n in num_queued}
    return {"policy": policy, "commit": commit(), "seed": seed, "decision_ms": decisions}


def _measure(num_queued: int, policy: str, num_decisions: int, seed: int) -> dict[str, float]:
    rng = random.Random(seed)
    info = BackendInfo(
        model="none", num_kv_blocks=NUM_KV_BLOCKS, block_size=16, max_model_len=100_000, can_offload=True
    )
    scheduler = Scheduler(SchedulerConfig(policy=policy), make_policy(policy), info)
    for number in range(num_queued + scheduler.config.max_num_seqs):
        scheduler.add(_generation(number, rng))
    times_ms: list[float] = []
    now_s = 1.0
    for decision in range(num_decisions + 20):
        started_s = time.perf_counter()
        scheduled = scheduler.schedule(now_s)
        elapsed_s = time.perf_counter() - started_s
        if decision >= 20:  # caches are warm
            times_ms.append(1000 * elapsed_s)
        now_s += 0.022
        scheduler.update(scheduled, _output(scheduler, scheduled), {}, now_s)
    times_ms.sort()
    return {"p50": quantile(times_ms, 0.5), "p99": quantile(times_ms, 0.99)}


def _generation(number: int, rng: random.Random) -> Generation:
    urgency = rng.choice((Urgency.NORMAL, Urgency.URGENT))
    arrival_s = rng.uniform(0.0, 1.0)
    request = PlanRequest(
        request_id=f"r{number}",
        robot_id=f"robot_{number}",
        robot_model=rng.choice(("tello", "indy7")),
        instruction="-",
        urgency=urgency,
    )
    sequence = Sequence(request_id=request.request_id, prompt_token_ids=(0,) * rng.randint(80, 120))
    return Generation(
        request=request,
        sequence=sequence,
        arrival_s=arrival_s,
        execution=ExecutionTracker(arrival_s, 0.008),
        max_output_tokens=10_000,
    )


def _output(scheduler: Scheduler, scheduled: SchedulerOutput) -> StepOutput:
    """Returns a token for every request whose prompt is complete."""
    by_id = {generation.request_id: generation for generation in scheduler.running}
    token_ids = {
        request_id: (1,)
        for request_id, num_tokens in scheduled.num_scheduled_tokens.items()
        if by_id[request_id].num_uncomputed_tokens <= num_tokens
    }
    return StepOutput(token_ids=token_ids, duration_s=0.022)
