# SPDX-License-Identifier: Apache-2.0
"""Tokens that are inserted into a sequence: from there on it is as if all of it had been its prompt from the start."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.step import FinishReason, SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import generate

BLOCK_SIZE, NUM_BLOCKS = 4, 40
PREFIX = tuple(range(40, 59))
GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");" | "g(" /[a-z_]+/ ");")+\n'
FORCING = 'start: ("mf(1" /[0-9]/ "0);" | "g(" /[ab]/ "_box);" | "take_picture();")+\n'
ONCE = 'start: "mf(" /[0-9]/ ");"\n'  # ends soon: by its grammar, or by a token that ends the sequence
KINDS = (
    {"prompt_token_ids": (*PREFIX, 5, 6, 7), "prefix_id": "p"},
    {"prompt_token_ids": (*PREFIX, 9), "prefix_id": "p", "grammar": FORCING},
    {"prompt_token_ids": tuple(range(60, 81)), "grammar": ONCE},
    {"prompt_token_ids": (7, 8), "grammar": GRAMMAR, "sampling": SamplingParams(temperature=1.3, seed=4)},
)
STEPS = ("decode", "decode", "decode", "insert", "offload", "preempt", "chunk")


class Driver:
    """Runs one sequence as a scheduler would, alongside another one."""

    def __init__(self, backend: TorchBackend, sequence: Sequence) -> None:
        self.backend, self.sequence = backend, sequence
        self.tokens: list[int] = []
        self.left = len(sequence.prompt_token_ids) - sequence.num_cached_tokens
        self.is_finished = False
        self.run(new=(sequence,))

    def run(self, count: int | None = None, **fields: object) -> None:
        output = self.backend.execute(SchedulerOutput(num_scheduled_tokens={"a": count or self.left}, **fields))
        assert not output.failed
        self.backend.check_integrity()
        new = output.token_ids.get("a", ())
        self.tokens += new
        self.left += len(new) - (count or self.left)
        self.is_finished = "a" in output.finished

    def insert(self, token_ids: tuple[int, ...]) -> None:
        prompt = (*self.sequence.prompt_token_ids, *self.tokens, *token_ids)
        self.sequence = replace(self.sequence, prompt_token_ids=prompt)
        self.left += len(token_ids)
        self.tokens, self.is_finished = [], False
        self.run(insert={"a": token_ids})

    def apply(self, step: str, token_ids: tuple[int, ...]) -> None:
        if step == "insert":
            self.insert(token_ids)
        elif step == "offload":
            self.backend.execute(SchedulerOutput(offload=("a",)))
            if not self.is_finished:
                self.run(restore=("a",))
            else:
                self.backend.execute(SchedulerOutput(restore=("a",)))
        elif step == "preempt" and not self.is_finished:
            again = replace(self.sequence, output_token_ids=tuple(self.tokens))
            self.left = len(again.prompt_token_ids) + len(self.tokens) - again.num_cached_tokens
            self.run(release=("a",), new=(again,))
        elif not self.is_finished and self.left:
            self.run(1 if step == "chunk" else None)


@pytest.fixture(scope="module", params=["off", "always"])
def small(request: pytest.FixtureRequest, llama_dir) -> TorchBackend:
    backend = TorchBackend(llama_dir, num_kv_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, lookahead=request.param)
    assert backend.load_prefix("p", PREFIX) == 16
    return backend


@pytest.fixture(scope="module")
def reference(llama_dir) -> TorchBackend:
    return TorchBackend(llama_dir, num_kv_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shares=st.booleans(),
    steps=st.lists(st.sampled_from(STEPS), max_size=12),
    texts=st.lists(st.lists(st.integers(3, 250), min_size=1, max_size=9).map(tuple), min_size=12, max_size=12),
)
def test_it_goes_on_as_a_fresh_prompt_of_the_same_tokens(small, reference, kind, shares, steps, texts):
    num_cached = 16 if shares and "prefix_id" in kind else 0
    driver = Driver(small, Sequence(request_id="a", num_cached_tokens=num_cached, **kind))
    try:
        for step, text in zip([*steps, "insert", "decode", "offload", "decode"], [*texts, *texts], strict=False):
            driver.apply(step, text)
        while driver.left and not driver.is_finished and len(driver.tokens) < 8:
            driver.run()
    finally:
        small.execute(SchedulerOutput(release=("a",)))
        small.check_integrity()
    fresh = replace(driver.sequence, num_cached_tokens=0, prefix_id=None)
    expected = generate(reference, fresh, max_tokens=max(8, len(driver.tokens)))["a"]
    assert driver.tokens[: len(expected)] == expected[: len(driver.tokens)]


def test_a_sequence_that_had_ended_goes_on_and_only_what_is_new_is_computed(small: TorchBackend):
    sequence = Sequence(request_id="a", prompt_token_ids=tuple(range(60, 80)), grammar=ONCE)
    driver = Driver(small, sequence)
    while not driver.is_finished:
        driver.run()
    first = driver.tokens
    output = small.execute(SchedulerOutput(insert={"a": (9, 10, 11)}, num_scheduled_tokens={"a": driver.left + 3}))
    assert not output.failed
    assert driver.left <= 2  # the last token that it wrote, and what its grammar forced behind that
    while "a" not in output.finished:
        output = small.execute(SchedulerOutput(num_scheduled_tokens={"a": 1}))
    assert output.finished == {"a": FinishReason.STOP}
    assert first
    small.execute(SchedulerOutput(release=("a",)))


def test_what_cannot_be_inserted_fails_that_request_alone(small: TorchBackend):
    other = Sequence(request_id="b", prompt_token_ids=(5, 6))
    first = Sequence(request_id="a", prompt_token_ids=(7, 8))
    small.execute(SchedulerOutput(new=(first, other), num_scheduled_tokens={"a": 2, "b": 2}))
    output = small.execute(SchedulerOutput(insert={"a": (10**9,)}, num_scheduled_tokens={"a": 2, "b": 1}))
    assert set(output.failed) == {"a"}
    assert output.token_ids["b"]
    output = small.execute(SchedulerOutput(insert={"a": (5,)}, num_scheduled_tokens={"a": 2, "b": 1}))
    assert "does not know" in output.failed["a"]
    small.execute(SchedulerOutput(release=("a", "b")))
    small.check_integrity()


@pytest.mark.parametrize("chunk", [3, 1000])
def test_what_was_evicted_stays_out_and_chunks_change_nothing(small: TorchBackend, chunk: int):
    prompt, inserted = tuple(range(60, 110)), tuple(range(5, 17))
    sequence = Sequence(request_id="a", prompt_token_ids=prompt, evictable=((4, 18),))
    output = small.execute(SchedulerOutput(new=(sequence,), num_scheduled_tokens={"a": len(prompt)}))
    free_blocks = output.free_kv_blocks
    output = small.execute(SchedulerOutput(evict={"a": 14}, num_scheduled_tokens={"a": 1}))
    assert output.free_kv_blocks > free_blocks
    left, tokens, step = 1 + len(inserted), [], {"insert": {"a": inserted}}
    while len(tokens) < 4:
        count = min(chunk, left)
        output = small.execute(SchedulerOutput(num_scheduled_tokens={"a": count}, **step))
        assert not output.failed
        small.check_integrity()
        new = output.token_ids.get("a", ())
        tokens += new
        left += len(new) - count
        step = {}
    expected = EVICTED.setdefault(small, tokens[:4])
    assert tokens[:4] == expected
    small.execute(SchedulerOutput(release=("a",)))


EVICTED: dict[TorchBackend, list[int]] = {}
"""What a backend wrote for the first chunk size, to compare with."""
