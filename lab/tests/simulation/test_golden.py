# SPDX-License-Identifier: Apache-2.0
"""Simulated results of fixed seeds: schedulers, admission, pipelines, capacity. None of them depends on weights."""

import random
from pathlib import Path

import pytest

from lab.tests.simulation.builders import ROBOTS, SCRIPTS, a_config, a_workload
from lab.tests.simulation.pipeline.builders import TIMES, make_requests, make_scheduler
from lab.tests.simulation.pipeline.builders import run as run_pipeline
from llm_planner.prediction.length import LengthInterval
from llm_planner.prediction.profile import find_profile, served
from llm_planner.prediction.throughput.estimated import estimated_profile, is_estimate
from llm_planner.scheduling.pipeline.balanced import BalancedPacer
from llm_planner.scheduling.pipeline.pacer import PaperPacer, StaticPacer, UrgentFirst
from llm_planner.scheduling.policies import policy_names
from llm_planner_lab.simulation.admission.algorithms import admission_names, make_admission
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import AdmissionRun
from llm_planner_lab.simulation.admission.step_time import UnitSteps
from llm_planner_lab.simulation.capacity.fleet import SAMPLE, SAMPLE_S, demands, fleet_trace
from llm_planner_lab.simulation.capacity.queueing import outlook
from llm_planner_lab.simulation.failures import with_failures
from llm_planner_lab.simulation.simulator import simulate
from llm_planner_lab.simulation.workload import WorkloadSpec
from tests.golden.recorded import check, digest, plain

RECORD = Path(__file__).with_name("golden.json")
CHATS = WorkloadSpec(name="chats", events_per_s=0.3, max_tasks_per_event=6, tasks=(12,), num_robots=20, duration_s=20.0)
PACERS = {
    "static": lambda: StaticPacer(4, 2048),
    "token_budget": lambda: PaperPacer(4, 2048, TIMES),
    "balanced": lambda: BalancedPacer(4, 2048, TIMES),
    "urgent": lambda: UrgentFirst(BalancedPacer(4, 2048, TIMES), 2048),
}
SERVERS = ("llama3-8b-rtx4090", "estimate:Nvidia H100 GPU/1/vLLM/meta-llama/Meta-Llama-3-8B")


def summary(record):
    return {
        "digest": digest(record),
        "num_requests": len(record.requests),
        "utility": sum(request.utility for request in record.requests),
        "end_s": record.end_s,
    }


def of_schedulers():
    traces = {"tasks": a_workload(0), "failures": with_failures(a_workload(1), 0.1, 1, ROBOTS)}
    for policy in policy_names():
        for name, trace in traces.items():
            yield f"{policy}, {name}", summary(simulate(trace, a_config(policy, max_num_seqs=4), SCRIPTS))
    yield "tardiness, chats", summary(simulate(a_workload(2, CHATS), a_config("tardiness", max_num_seqs=2), SCRIPTS))


def of_admission():
    rng = random.Random(0)
    jobs = [TrueJob(prompt_tokens=rng.randint(0, 20), output_tokens=rng.randint(1, 30)) for _ in range(40)]
    intervals = [LengthInterval(1, 2 * job.output_tokens) for job in jobs]
    for name in admission_names():
        policy = make_admission(name, 120, random.Random(0))
        yield f"admission {name}", sum(AdmissionRun(jobs, intervals, policy, 120, UnitSteps()).run().latencies_s)


def of_pipelines():
    for name, pacer in PACERS.items():
        requests = make_requests(12, 300, 40)
        result = run_pipeline(requests, make_scheduler(pacer(), num_blocks=512))
        yield f"pipeline {name}", [result.completion_s, result.num_micro_batches, result.idle_s]


def of_capacity():
    for server in SERVERS:
        profile = estimated_profile(server).profile if is_estimate(server) else find_profile(server)
        for robot in ("tello", "indy7"):
            asked = demands(fleet_trace({robot: SAMPLE}, 0, SAMPLE_S, ROBOTS), SCRIPTS)
            load = [demand.scaled(1 / SAMPLE).scaled(30) for demand in asked]
            figures = outlook(load, served(profile), 16, 1.0)
            if is_estimate(server):  # by single-precision trees, whose sums differ between processors
                figures = [float(f"{figure:.4g}") for figure in plain(figures)]
            yield f"30 {robot} in closed form, {server}", figures


@pytest.mark.slow
def test_simulated_results_are_as_recorded():
    check(RECORD, dict((*of_schedulers(), *of_admission(), *of_pipelines(), *of_capacity())))
