# SPDX-License-Identifier: Apache-2.0
"""Builders and strategies for tests of time budgets."""

from dataclasses import dataclass
from itertools import accumulate

from hypothesis import strategies as st

from llm_planner.core.execution_time import ALONE, CoBatch, DecodeLine
from llm_planner.scheduling.budget import Lengths, Task
from llm_planner.scheduling.budget_solver import Load, Prompt


@dataclass(frozen=True)
class LinearTime:
    """An engine without surprises."""

    prefill_s_per_token: float = 1e-4
    chunk_s: float = 0.0
    q_s: float = 0.02
    per_sequence_s: float = 0.001
    p_s: float = 1e-6
    evicting_s: float = 0.0

    def prefill_s(self, num_tokens, kv_len, chunk_tokens, co_batch=ALONE):
        num_chunks = -(-num_tokens // chunk_tokens)
        each_s = self.chunk_s + self.per_sequence_s * co_batch.num_seqs + self.p_s * (kv_len + co_batch.kv_tokens)
        return self.prefill_s_per_token * num_tokens + num_chunks * each_s

    def decode_line(self, num_seqs):
        return DecodeLine(self.q_s + self.per_sequence_s * (num_seqs - 1), self.p_s)

    def evict_s(self, num_tokens):
        return self.evicting_s

    def restore_s(self, num_tokens):
        return 0.0


def make_task(**changes):
    fields = {
        "num_uncomputed_tokens": 100,
        "kv_len": 500,
        "num_removable_tokens": 60,
        "lengths": Lengths(lower=5, expected=20.0),
        "max_tokens": 512,
    }
    return Task(**(fields | changes))


times = st.builds(
    LinearTime,
    prefill_s_per_token=st.floats(1e-6, 1e-3),
    chunk_s=st.floats(0.0, 0.05),
    q_s=st.floats(1e-3, 0.2),
    per_sequence_s=st.floats(0.0, 0.01),
    p_s=st.one_of(st.just(0.0), st.floats(1e-8, 1e-4)),
    evicting_s=st.just(0.0) | st.floats(0.0, 0.1),
)
lengths = st.builds(
    lambda lower, expected, beyond: Lengths(
        lower=lower, expected=float(expected), upper=None if beyond is None else expected + beyond
    ),
    st.integers(1, 50),
    st.integers(1, 450),
    st.none() | st.integers(0, 500),
)


@st.composite
def _tasks(draw):
    kv_len, num_uncomputed = draw(st.integers(0, 4000)), draw(st.integers(1, 4000))
    droppable = draw(st.lists(st.integers(1, 500), max_size=8))
    return Task(
        num_uncomputed_tokens=num_uncomputed,
        kv_len=kv_len,
        num_removable_tokens=draw(st.integers(0, num_uncomputed)),
        droppable_tokens=tuple(left for left in accumulate(droppable) if left < num_uncomputed),
        lengths=draw(lengths),
        max_tokens=draw(st.integers(1, 2000)),
    )


tasks = _tasks()
kv_lens = st.lists(st.integers(1, 4000), max_size=16).map(tuple)
companies = kv_lens.map(lambda lens: CoBatch(len(lens), sum(lens)))
slacks = st.just(float("inf")) | st.floats(0.0, 5.0)
prompts = st.lists(st.builds(Prompt, st.integers(1, 2000), st.integers(0, 2000)), max_size=3).map(tuple)
loads = st.builds(
    Load,
    has_free_slot=st.booleans(),
    kv_lens=kv_lens,
    returning_kv_lens=kv_lens,
    prompts=prompts,
    reserved_kv_lens=st.lists(st.integers(1, 4000), max_size=3).map(tuple),
    reserved_prompts=prompts,
    reserved_s=st.floats(0.0, 5.0),
    max_co_batched=st.integers(-1, 15),
    reserved_slack_s=slacks,
    room_tokens=st.just(float("inf")) | st.integers(-100, 8000),
    waiting_slack_s=slacks,
    chunk_tokens=st.integers(16, 2048),
    reserved_chunk_tokens=st.just(2048),
)
