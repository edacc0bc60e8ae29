# SPDX-License-Identifier: Apache-2.0
"""Runs of admission policies: the numbers of the paper's examples, and a checker that sees what it should."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthInterval
from llm_planner_lab.simulation.admission.algorithms import admission_names, make_admission
from llm_planner_lab.simulation.admission.algorithms.interface import Decision
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import AdmissionRun
from llm_planner_lab.simulation.admission.scheduler_run import SchedulerRun
from llm_planner_lab.simulation.admission.step_time import UnitSteps


def jobs_of(*lengths):
    return [TrueJob(prompt_tokens=prompt, output_tokens=output) for prompt, output in lengths]


def run(name, jobs, intervals, capacity, seed=0, step_time=None):
    policy = make_admission(name, capacity, random.Random(seed))
    one, decide = AdmissionRun(jobs, intervals, policy, capacity, step_time or UnitSteps()), policy.decide

    def recount_and_decide(step):
        assert one._held_tokens == sum(jobs[i].prompt_tokens + step - began for i, began in one._began.items())
        return decide(step)

    policy.decide = recount_and_decide
    return one.run()


@pytest.mark.parametrize(("name", "total"), [("h_sf", 5), ("a_max", 9), ("a_min", 5), ("a_l", 5), ("adaptive", 5)])
def test_example_1(name, total):
    jobs = jobs_of(*[(1, 1)] * 5)
    assert sum(run(name, jobs, [LengthInterval(1, 4)] * 5, 10).latencies_s) == total


LENGTHS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 15)), min_size=1, max_size=12)


@settings(max_examples=60)
@given(LENGTHS, st.integers(0, 20), st.sampled_from(admission_names()), st.data())
def test_every_job_ends_and_memory_never_overflows(lengths, spare, name, data):
    jobs = jobs_of(*lengths)
    capacity = max(job.peak_tokens for job in jobs) + spare
    intervals = [
        LengthInterval(data.draw(st.integers(1, j.output_tokens)), data.draw(st.integers(j.output_tokens, 20)))
        for j in jobs
    ]
    result = run(name, jobs, intervals, capacity)
    assert result.overflows == 0
    assert all(latency >= job.output_tokens for latency, job in zip(result.latencies_s, jobs, strict=True))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=12), st.integers(0, 12), st.sampled_from(["a_min", "a_l"]))
def test_with_exact_lengths_the_policies_equal_h_sf(outputs, prompt, name):
    jobs = jobs_of(*[(prompt, output) for output in outputs])
    capacity = 2 * max(job.peak_tokens for job in jobs)
    exact = [LengthInterval(output, output) for output in outputs]
    if name == "a_l":  # it does not sort: equal where all outputs are
        jobs, exact = jobs_of(*[(prompt, outputs[0])] * len(outputs)), [exact[0]] * len(outputs)
    assert run(name, jobs, exact, capacity).mean_latency_s == run("h_sf", jobs, exact, capacity).mean_latency_s


class Greedy:
    """Admits all jobs at once."""

    name = "greedy"
    knows_lengths = False

    def __init__(self):
        self.waiting = []

    def submit(self, job):
        self.waiting.append(job.job_id)

    def decide(self, step):
        started, self.waiting = tuple(self.waiting), []
        return Decision(start=started)

    def finish(self, job_id):
        pass


def test_the_checker_sees_an_overflow():
    jobs = jobs_of((4, 3), (4, 3))
    intervals = [LengthInterval(1, 3)] * 2
    held = AdmissionRun(jobs, intervals, Greedy(), 13, UnitSteps()).run()
    assert held.overflows == 1  # 10, 12, 14 tokens
    assert AdmissionRun(jobs, intervals, Greedy(), 14, UnitSteps()).run().overflows == 0


def live_run(capacity, jobs, intervals):
    return SchedulerRun(jobs, intervals, "fcfs", capacity, UnitSteps())


def test_the_checker_of_a_live_policy_counts_what_steps_leave_in_the_memory():
    jobs, intervals = jobs_of((4, 3), (4, 3)), [LengthInterval(3, 3)] * 2
    run = live_run(14, jobs, intervals)
    run._capacity_tokens = 11
    assert run.run().overflows == 1  # 8, 10, 12 tokens: the last one's KV is never computed
    assert live_run(14, jobs, intervals).run().overflows == 0


def test_it_does_not_believe_the_scheduler():
    """An engine that is never told to free KV still holds it, whatever the scheduler keeps in its books."""
    jobs, intervals = jobs_of((4, 12), (4, 12)), [LengthInterval(1, 12)] * 2
    assert live_run(20, jobs, intervals).run().overflows == 0
    run = live_run(20, jobs, intervals)
    schedule = run._scheduler.schedule
    run._scheduler.schedule = lambda now_s: replace(schedule(now_s), release=())
    assert run.run().overflows > 0


def test_a_policy_that_runs_no_request_is_named():
    policy = Greedy()
    policy.decide = lambda step: Decision()
    with pytest.raises(PlannerError, match="greedy lets none of 1 waiting") as error:
        AdmissionRun(jobs_of((1, 1)), [LengthInterval(1, 1)], policy, 10, UnitSteps()).run()
    assert error.value.code is ErrorCode.INVALID_CONFIG


def test_jobs_that_come_later_wait_for_nothing_else():
    jobs = [TrueJob(prompt_tokens=1, output_tokens=2), TrueJob(prompt_tokens=1, output_tokens=2, arrival_s=10.5)]
    result = run("a_min", jobs, [LengthInterval(1, 4)] * 2, 10)
    assert result.latencies_s == [2.0, 2.0]
    assert result.end_s == 12.5
