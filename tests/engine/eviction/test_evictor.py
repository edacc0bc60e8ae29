# SPDX-License-Identifier: Apache-2.0
"""Evictions in the engine: what they give back, what they do not touch, what is refused."""

from dataclasses import replace
from itertools import chain, repeat

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.eviction import num_removable_tokens
from llm_planner.core.step import SchedulerOutput
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.eviction.evictor import indices_of_known_number
from tests.engine.builders import decode, generate, save_model, sequence, start
from tests.engine.eviction.builders import METHODS, PROMPT, SEQUENCE, evicted

BLOCK_SIZE = 4
NUM_BLOCKS = 96
RATIO = 0.5  # 66 of 132 tokens
PREFIX = SEQUENCE.prompt_token_ids[:8]


def make_backend(model_dir, method="snapkv"):
    backend = TorchBackend(model_dir, num_kv_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, eviction_method=method)
    assert backend.load_prefix("p", PREFIX) == 8
    return backend


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "m", seed=11)


@pytest.fixture(scope="module", params=METHODS)
def backend(request, model_dir):
    return make_backend(model_dir, request.param)


@pytest.fixture
def snapkv(model_dir):
    backend = make_backend(model_dir)
    yield backend
    backend.check_integrity()
    backend.execute(SchedulerOutput(release=("a", "b", "c")))
    assert backend.execute(SchedulerOutput()).free_kv_blocks == NUM_BLOCKS - 2


@settings(max_examples=12, deadline=None)
@given(sizes=st.lists(st.integers(1, 50), max_size=8), is_cached=st.booleans(), late_tokens=st.integers(0, 3))
def test_the_prompt_may_come_in_any_chunks_and_behind_a_shared_prefix(backend, sizes, is_cached, late_tokens):
    expected = evicted(backend, SEQUENCE, RATIO, late_tokens=late_tokens, num_tokens=12)
    shared = replace(SEQUENCE, prefix_id="p", num_cached_tokens=8) if is_cached else SEQUENCE
    chunks = chain(sizes, repeat(1))
    assert evicted(backend, shared, RATIO, late_tokens=late_tokens, num_tokens=12, chunks=chunks) == expected


def test_blocks_are_free_in_the_same_step_and_attention_reads_less(snapkv, monkeypatch):
    snapkv.execute(start(SEQUENCE))
    cache, gathered = snapkv._runner.cache, []
    gather, attend = cache.gather, cache.attend

    def counted_gather(layer, blocks, num_seqs):
        gathered.append(len(blocks))
        return gather(layer, blocks, num_seqs)

    def counted_attend(layer, queries, rows):
        gathered.append(len(rows.tables))
        return attend(layer, queries, rows)

    monkeypatch.setattr(cache, "gather", counted_gather)
    monkeypatch.setattr(cache, "attend", counted_attend)
    before = snapkv.execute(decode("a"))
    assert before.free_kv_blocks == NUM_BLOCKS - 2 - 34  # 133 tokens
    assert set(gathered) == {34}
    after = snapkv.execute(SchedulerOutput(evict={"a": 66}, num_scheduled_tokens={"a": 1}))
    assert after.free_kv_blocks == NUM_BLOCKS - 2 - 17  # 68 tokens
    gathered.clear()
    snapkv.execute(decode("a"))
    assert set(gathered) == {18}


def test_the_memory_can_be_used_by_another_one_in_the_same_step(snapkv):
    big = tuple(range(10, 200))
    snapkv.execute(start(SEQUENCE))
    refused = snapkv.execute(start(sequence("b", [*big, *big])))
    assert "KV blocks are needed" in refused.failed["b"]
    step = start(sequence("b", big[:188]), evict={"a": 66})
    assert not snapkv.execute(step).failed  # 47 blocks
    snapkv.execute(SchedulerOutput(release=("b",)))


@pytest.mark.parametrize("method", METHODS)
def test_neighbours_notice_nothing(model_dir, method):
    backend = make_backend(model_dir, method)
    shared = {"prefix_id": "p", "num_cached_tokens": 8}
    others = (sequence("b", (*PREFIX, 9, 10, 11), **shared), sequence("c", tuple(range(60, 90))))
    expected = generate(backend, *others, max_tokens=20)
    alone = evicted(backend, SEQUENCE, RATIO, num_tokens=20)
    tokens = {"a": [], "b": [], "c": []}
    step = start(replace(SEQUENCE, **shared), *others)
    active = set(tokens)
    for index in range(20):
        output = backend.execute(step)
        assert not output.failed
        backend.check_integrity()
        for name, new in output.token_ids.items():
            tokens[name] += new
        active -= set(output.finished)
        evict = {"a": 66} if index == 0 else {}
        step = SchedulerOutput(evict=evict, num_scheduled_tokens=dict.fromkeys(active, 1))
    backend.execute(SchedulerOutput(release=tuple(tokens)))
    assert tokens == expected | {"a": alone}


@pytest.mark.parametrize("when", ["offloaded before", "offloaded after", "restored in the same step"])
def test_offload_and_restore(snapkv, when):
    expected = evicted(snapkv, SEQUENCE, RATIO, num_tokens=6)
    tokens = list(snapkv.execute(start(SEQUENCE)).token_ids["a"])
    evict, move = {"evict": {"a": 66}}, SchedulerOutput(offload=("a",))
    steps = {
        "offloaded before": [move, SchedulerOutput(restore=("a",), num_scheduled_tokens={}), evict],
        "offloaded after": [evict, move, {"restore": ("a",)}],
        "restored in the same step": [move, {"restore": ("a",)} | evict],
    }[when]
    for step in steps:
        is_move = isinstance(step, SchedulerOutput)
        output = snapkv.execute(step if is_move else SchedulerOutput(num_scheduled_tokens={"a": 1}, **step))
        assert not output.failed
        tokens += output.token_ids.get("a", ())
        if step is move:
            assert output.free_kv_blocks == NUM_BLOCKS - 2
    while len(tokens) < 6:
        tokens += snapkv.execute(decode("a")).token_ids["a"]
    assert tokens == expected


def test_computed_again_after_a_preemption_and_evicted_again(snapkv):
    expected = evicted(snapkv, SEQUENCE, RATIO, num_tokens=20)
    assert len(expected) > 9
    again = replace(SEQUENCE, output_token_ids=tuple(expected[:8]))
    output = snapkv.execute(SchedulerOutput(new=(again,), num_scheduled_tokens={"a": len(PROMPT)}))
    assert not output.token_ids
    output = snapkv.execute(SchedulerOutput(evict={"a": 66}, num_scheduled_tokens={"a": 8}))
    tokens = [*expected[:8], *output.token_ids["a"]]
    while len(tokens) < len(expected):
        tokens += snapkv.execute(decode("a")).token_ids["a"]
    assert tokens == expected


def test_what_cannot_be_evicted_fails_alone(snapkv):
    good, plain = replace(SEQUENCE, request_id="b"), replace(SEQUENCE, request_id="c", evictable=())
    alone = generate(snapkv, replace(good, evictable=()), max_tokens=6)["b"]
    tokens = list(snapkv.execute(start(good)).token_ids["b"])
    most = num_removable_tokens(SEQUENCE)
    assert most == 86
    for first, evict, reason in (
        ({"new": (SEQUENCE,), "num_scheduled_tokens": {"a": 100}}, {"a": 1}, "100 of 132 tokens"),
        ({"new": (SEQUENCE,), "num_scheduled_tokens": {"a": 132}}, {"a": most + 1}, "86 can be"),
        ({"new": (plain,), "num_scheduled_tokens": {"c": 132}}, {"c": 1}, "no KV of it can be removed"),
        ({"release": ("c",)}, {"a": 1}, "does not know"),
    ):
        snapkv.execute(SchedulerOutput(**first))
        (name,) = evict
        output = snapkv.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={name: 1, "b": 1}))
        assert reason in output.failed[name]
        assert set(output.token_ids) == {"b"}
        tokens += output.token_ids["b"]
    tokens += snapkv.execute(decode("b")).token_ids["b"]
    assert tokens == alone


def test_nothing_is_evicted_twice(snapkv):
    snapkv.execute(start(SEQUENCE))
    step = SchedulerOutput(evict={"a": 20}, num_scheduled_tokens={"a": 1})
    assert not snapkv.execute(step).failed
    assert "evicted" in snapkv.execute(step).failed["a"]


def test_an_unknown_method_is_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(PlannerError, match="known are snapkv, streaming, key_norm") as caught:
        TorchBackend(tmp_path / "no model here", eviction_method="h2o")
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_evicts_and_goes_on(model_dir, method):
    backend = TorchBackend(model_dir, num_kv_blocks=16, dtype="bfloat16", eviction_method=method)
    assert len(evicted(backend, SEQUENCE, RATIO, num_tokens=8)) == 8


def test_what_stays_is_found_alike_where_its_number_is_known():
    stays = torch.tensor([[True, False, True, False, True], [False, True, True, True, False]])
    assert indices_of_known_number(stays, 3).tolist() == [[0, 2, 4], [1, 2, 3]]
    assert indices_of_known_number(stays, 3).equal(stays.nonzero()[:, 1].view(2, 3))


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_tokens_on_cuda_equal_those_on_the_cpu(model_dir, method):
    options = {"num_kv_blocks": 16, "dtype": "float32", "eviction_method": method}
    tokens = [evicted(TorchBackend(model_dir, device=device, **options), SEQUENCE, RATIO) for device in ("cpu", "cuda")]
    assert tokens[0] == tokens[1]


def test_nothing_is_removed_from_a_model_with_a_window(tmp_path):
    backend = make_backend(save_model(tmp_path / "m", "mistral", sliding_window=20))
    assert not backend.info.can_evict
    assert list(backend.execute(replace(start(SEQUENCE), evict={})).token_ids) == ["a"]
    assert "no KV of it can be removed" in backend.execute(SchedulerOutput(evict={"a": 4})).failed["a"]
