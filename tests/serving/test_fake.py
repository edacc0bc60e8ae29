# SPDX-License-Identifier: Apache-2.0
"""The fake tokenizer and backend keep the contracts of the real ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import FinishReason, SchedulerOutput, Sequence
from llm_planner.serving.fake import EOS_TOKEN_ID, FakeBackend, FakeTiming, FakeTokenizer


@given(st.text(max_size=40), st.integers(1, 5))
def test_the_tokenizer_is_reversible(text, size):
    tokenizer = FakeTokenizer(size)
    token_ids = tokenizer.encode(text)
    assert tokenizer.decode(token_ids) == text
    assert EOS_TOKEN_ID not in token_ids
    assert tokenizer.token_bytes(EOS_TOKEN_ID) == b""


def write(backend: FakeBackend, prompt: str) -> str:
    """What the backend writes, alone."""
    sequence = Sequence(request_id="r", prompt_token_ids=tuple(backend.tokenizer.encode(prompt)))
    new, num_tokens, written = (sequence,), len(sequence.prompt_token_ids), []
    while True:
        output = backend.execute(SchedulerOutput(new=new, num_scheduled_tokens={"r": num_tokens}))
        written += output.token_ids.get("r", ())
        if output.finished.get("r") is FinishReason.STOP:
            backend.execute(SchedulerOutput(release=("r",)))
            assert backend.num_free_blocks == backend.num_kv_blocks
            return backend.tokenizer.decode(written)
        new, num_tokens = (), 1


def test_scripts():
    backend = FakeBackend(plans={"go": "a();", "go home": "b();"}, default_plan="c();")
    assert write(backend, "task: go\n") == "a();"
    assert write(backend, "task: go home\n") == "b();"  # the longest counts
    assert write(backend, "task: else\n") == "c();"
    assert write(backend, "task: exactly: d();e();\nplan:\n") == "d();e();"
    assert write(backend, "task: exactly: d();e();\nplan:\nd();") == "e();"  # behind what was delivered


def test_step_times():
    timing = FakeTiming(step_s=1.0, prompt_token_s=0.1, decode_s=0.01)
    assert timing.duration_s(SchedulerOutput(num_scheduled_tokens={"a": 5, "b": 1, "c": 1})) == pytest.approx(1.52)


def test_an_overdrawn_cache_is_an_error():
    backend = FakeBackend(num_kv_blocks=1, block_size=4)
    with pytest.raises(MemoryError):
        write(backend, "x" * 100)


def test_an_eviction_gives_blocks_back_and_the_plan_goes_on():
    backend = FakeBackend(default_plan="abcdef();", block_size=4)
    prompt = tuple(backend.tokenizer.encode("x" * 60))  # 20 tokens
    backend.execute(
        SchedulerOutput(
            new=(Sequence(request_id="r", prompt_token_ids=prompt),), num_scheduled_tokens={"r": len(prompt)}
        )
    )
    assert backend.num_free_blocks == backend.num_kv_blocks - 5
    output = backend.execute(SchedulerOutput(evict={"r": 13}, num_scheduled_tokens={"r": 1}))
    assert output.token_ids["r"]
    assert output.free_kv_blocks == backend.num_kv_blocks - 2  # 7 tokens and a new one


def test_a_backend_that_cannot_evict_says_so_before_it_does_anything():
    backend = FakeBackend(can_evict=False)
    sequence = Sequence(request_id="r", prompt_token_ids=(1, 2))
    with pytest.raises(PlannerError, match="cannot evict") as caught:
        backend.execute(SchedulerOutput(new=(sequence,), evict={"r": 1}, num_scheduled_tokens={"r": 2}))
    assert caught.value.code is ErrorCode.EVICTION_UNSUPPORTED
    assert backend.num_free_blocks == backend.num_kv_blocks
    assert not backend.info.can_evict


def test_what_is_inserted_makes_it_write_another_plan():
    backend = FakeBackend(plans={"go up": "mu(50);", "the way is blocked": "md(20);"})
    encode = backend.tokenizer.encode
    sequence = Sequence(request_id="a", prompt_token_ids=tuple(encode("go up ")))
    backend.execute(SchedulerOutput(new=(sequence,), num_scheduled_tokens={"a": len(sequence.prompt_token_ids)}))
    inserted = tuple(encode("the way is blocked "))
    written, step = [], SchedulerOutput(insert={"a": inserted}, num_scheduled_tokens={"a": len(inserted) + 1})
    while not (output := backend.execute(step)).finished:
        written += output.token_ids["a"]
        step = SchedulerOutput(num_scheduled_tokens={"a": 1})
    assert backend.tokenizer.decode(written) == "md(20);"
    again = tuple(encode("the way is blocked, go back "))  # one that had finished goes on; its last token has no KV
    step = SchedulerOutput(insert={"a": again}, num_scheduled_tokens={"a": len(again)})
    assert backend.execute(step).token_ids["a"]
