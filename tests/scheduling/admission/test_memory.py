# SPDX-License-Identifier: Apache-2.0
"""Eq. (3): the fast check equals a recount of every step ahead."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.admission.memory import FutureMemory

CAPACITY = 40


class BruteForce:
    """Eq. (3) to the letter: each step ahead, each job, counted one by one."""

    def __init__(self):
        self.jobs = {}  # id: held at its start, start, assumed end

    def fits(self, held, step, output):
        return self.peak([*self.jobs.values(), (held, step, step + output)], step) <= CAPACITY

    def peak(self, jobs, step):
        ends = [(held, start, max(end, step + 1)) for held, start, end in jobs]  # a living job has a token to come
        horizon = max(end for _, _, end in ends)
        return max(sum(h + t - s for h, s, end in ends if t <= end) for t in range(step + 1, horizon + 1))


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 15), st.integers(1, 12)),
        st.tuples(st.just("remove"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 6), st.just(0)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_it_says_what_a_recount_of_every_step_says(actions):
    memory, truth, step = FutureMemory(CAPACITY), BruteForce(), 0
    for number, (action, first, second) in enumerate(actions):
        if action == "wait":
            step += first
        elif action == "remove" and truth.jobs:
            job_id = sorted(truth.jobs)[first % len(truth.jobs)]
            memory.remove(job_id)
            del truth.jobs[job_id]
        elif action == "add":
            memory.advance(step)
            expected = truth.fits(first, step, second)
            assert memory.fits(first, step, second) == expected
            if expected:
                memory.add(number, first, step, second)
                truth.jobs[number] = (first, step, step + second)
        memory.advance(step)
        assert len(memory) == len(truth.jobs)
        assert memory.used_tokens(step) == sum(held + step - start for held, start, _ in truth.jobs.values())
        held, output = np.array([0, 3, 9, 20]), np.array([1, 7, 2, 4])
        assert list(memory.fit(held, step, output)) == [
            truth.fits(int(h), step, int(o)) for h, o in zip(held, output, strict=True)
        ]


def test_a_job_that_outlives_its_assumed_end_counts_with_one_more_token():
    memory = FutureMemory(10)
    memory.add(0, 4, 0, 2)  # until step 2: 6 tokens
    memory.advance(5)
    assert memory.used_tokens(5) == 9
    assert not memory.fits(1, 5, 1)  # 10 and 2 at step 6
    assert 0 in memory
    memory.remove(0)
    assert memory.fits(9, 5, 1)
    assert not memory.fits(10, 5, 1)


def test_two_that_end_together_are_told_apart_by_what_they_hold():
    memory = FutureMemory(20)
    memory.add(0, 5, 0, 3)
    memory.add(1, 7, 0, 3)
    memory.remove(0)
    assert memory.used_tokens(3) == 10
    assert memory.fits(7, 0, 3)
    assert not memory.fits(8, 0, 3)
