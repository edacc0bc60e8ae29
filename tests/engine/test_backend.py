# SPDX-License-Identifier: Apache-2.0
import math
from unittest.mock import Mock

import pytest
import torch

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import FinishReason, SamplingParams, SchedulerOutput
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model_runner import ModelRunner
from tests.engine.builders import PROMPT, bytes_of, decode, generate, save_model, sequence, start

GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");")+\n'


def text_of(backend, tokens):
    return bytes_of(backend.tokenizer, tokens).decode()


def test_it_is_a_backend(backend, llama_dir):
    seam: Backend = backend
    assert seam.info.model == llama_dir.name
    assert (seam.info.num_kv_blocks, seam.info.block_size, seam.info.can_offload) == (64, 16, True)
    assert seam.info.max_model_len == 512


def test_a_partly_prefilled_prompt_gives_no_token(backend):
    step = backend.execute(SchedulerOutput(new=(sequence(),), num_scheduled_tokens={"a": len(PROMPT) - 1}))
    assert not step.token_ids
    assert len(backend.execute(decode("a")).token_ids["a"]) == 1


def test_release_frees_everything_and_ignores_unknown_requests(backend):
    assert backend.execute(start(sequence())).free_kv_blocks == 64 - 5
    assert backend.execute(SchedulerOutput(release=("a", "absent"))).free_kv_blocks == 64


def test_offload_frees_and_restore_takes_the_blocks_again(backend):
    expected = generate(backend, sequence(), max_tokens=8)["a"]
    tokens = list(backend.execute(start(sequence())).token_ids["a"])
    assert backend.execute(SchedulerOutput(offload=("a",))).free_kv_blocks == 64
    generate(backend, sequence("b", range(5, 300)), max_tokens=3)  # another sequence uses the memory meanwhile
    while len(tokens) < 8:
        tokens += backend.execute(SchedulerOutput(restore=("a",), num_scheduled_tokens={"a": 1})).token_ids["a"]
    assert tokens == expected


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA error: out of memory"), torch.OutOfMemoryError()])
@pytest.mark.parametrize("move", ["to_host", "from_host"])
def test_kv_for_which_there_is_no_memory_when_it_moves_is_lost_alone(backend, monkeypatch, move, error):
    backend.execute(start(sequence("a"), sequence("b", prompt=range(3, 40))))
    if move == "from_host":
        assert not backend.execute(SchedulerOutput(offload=("a",))).lost
    monkeypatch.setattr(KVCache, move, Mock(side_effect=error))
    moved = {"offload": ("a",)} if move == "to_host" else {"restore": ("a",)}
    step = backend.execute(SchedulerOutput(**moved, num_scheduled_tokens={"a": 1, "b": 1}))
    assert (step.lost, step.failed) == ({"a"}, {})
    assert list(step.token_ids) == ["b"]
    assert step.free_kv_blocks == 64 - 3
    backend.check_integrity()


def test_offloading_what_is_offloaded_and_restoring_what_is_here_changes_nothing(backend):
    backend.execute(start(sequence()))
    assert not backend.execute(SchedulerOutput(restore=("a",))).failed
    backend.execute(SchedulerOutput(offload=("a",)))
    assert not backend.execute(SchedulerOutput(offload=("a",))).failed
    assert not backend.execute(SchedulerOutput(restore=("a",), num_scheduled_tokens={"a": 1})).failed


def test_prefix_is_shared_in_whole_blocks_and_never_written(backend):
    prefix = PROMPT[:40]
    alone = generate(backend, sequence())["a"]
    assert backend.load_prefix("p", prefix) == 32
    assert backend.load_prefix("p", prefix) == 32
    before = backend._runner.cache.pool[:, :, [0, 1]].clone()
    shared = [sequence(name, prefix_id="p", num_cached_tokens=32) for name in "ab"]
    step = backend.execute(start(*shared))
    assert step.free_kv_blocks == 64 - 2 - 2 * 3
    backend.execute(SchedulerOutput(release=("a", "b")))
    tokens = generate(backend, *shared)
    assert tokens == {"a": alone, "b": alone}
    assert (backend._runner.cache.pool[:, :, [0, 1]] == before).all()
    assert backend.execute(SchedulerOutput()).free_kv_blocks == 62


def test_prefix_that_is_short_or_does_not_fit_is_not_shared(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=8)
    assert backend.load_prefix("short", PROMPT[:15]) == 0
    backend.execute(start(sequence(prompt=range(5, 100))))
    assert backend.load_prefix("long", PROMPT) == 0
    backend.execute(SchedulerOutput(release=("a",)))
    assert backend.load_prefix("long", PROMPT) == 64


def test_a_prefix_that_cannot_be_computed_holds_no_blocks(backend, monkeypatch):
    free = backend.execute(SchedulerOutput()).free_kv_blocks

    def fail(*_):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(backend._runner, "prefill_blocks", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            backend.load_prefix("p", PROMPT[:40])
    assert backend.execute(SchedulerOutput()).free_kv_blocks == free
    assert backend.load_prefix("p", PROMPT[:40]) == 32


@pytest.mark.parametrize(("name", "tokens"), [("p", [7] * 40), ("q", [-1] * 40), ("q", [320] * 40), ("q", [3] * 2000)])
def test_prefix_with_other_or_impossible_tokens_is_refused(backend, name, tokens):
    backend.load_prefix("p", PROMPT[:40])
    with pytest.raises(PlannerError) as error:
        backend.load_prefix(name, tokens)
    assert error.value.code is ErrorCode.ENGINE_FAILED


def test_a_prefix_that_the_kv_cache_cannot_hold_names_the_setting(llama_dir):
    with pytest.raises(PlannerError, match=r"max_model_len 48, all that 3 KV blocks hold; raise engine\.num_kv_blocks"):
        TorchBackend(llama_dir, num_kv_blocks=3).load_prefix("p", PROMPT)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (start(sequence("bad", prompt=[])), "empty"),
        (start(sequence("bad", prompt=[5] * 513)), "max_model_len"),
        (start(sequence("bad", prompt=[320])), "vocabulary"),
        (start(sequence("bad", prompt=[-1])), "vocabulary"),
        (start(sequence("bad", prefix_id="none", num_cached_tokens=16)), "prefix"),
        (start(sequence("bad", prefix_id="p", num_cached_tokens=8)), "prefix"),
        (start(sequence("bad", prefix_id="p", num_cached_tokens=48)), "prefix"),
        (start(sequence("bad", [9] * 40, prefix_id="p", num_cached_tokens=32)), "does not start"),
        (start(sequence("bad", PROMPT[:32], prefix_id="p", num_cached_tokens=32)), "go on"),
        (start(sequence("bad", prompt=[], output_token_ids=(5,))), "empty"),
        (start(sequence("bad", output_token_ids=(320,))), "vocabulary"),
        (start(sequence("bad", output_token_ids=(5,) * 600)), "max_model_len"),
        (start(sequence("bad", output_token_ids=(5,), grammar='start: "mf"')), "do not match"),
        (start(sequence("bad", grammar="start: (")), "grammar"),
        (start(sequence("bad", grammar="")), "grammar"),
        (start(sequence("bad", grammar="start: nowhere")), "grammar"),
        (SchedulerOutput(num_scheduled_tokens={"bad": 1, "good": 1}), "does not know"),
        (SchedulerOutput(offload=("bad",), num_scheduled_tokens={"bad": 1, "good": 1}), "does not know"),
        (SchedulerOutput(restore=("bad",)), "does not know"),
        (SchedulerOutput(new=(sequence("bad"),), num_scheduled_tokens={"bad": 0}), "0 tokens"),
        (SchedulerOutput(new=(sequence("bad"),), num_scheduled_tokens={"bad": 999}), "999 tokens"),
        (SchedulerOutput(new=(sequence("bad"),), offload=("bad",), num_scheduled_tokens={"bad": 5}), "does not know"),
        (start(sequence("bad", prompt=range(3, 300)), sequence("bad2", prompt=[4] * 512)), None),
    ],
)
def test_a_request_that_cannot_run_harms_no_other_request(llama_dir, bad, reason):
    backend = TorchBackend(llama_dir, num_kv_blocks=33)
    backend.load_prefix("p", PROMPT[:40])
    expected = generate(backend, sequence("good"), max_tokens=6)["good"]
    tokens = list(backend.execute(start(sequence("good"))).token_ids["good"])
    step = backend.execute(bad)
    tokens += step.token_ids.get("good", ())
    if reason is None:  # not enough blocks for the second
        assert step.failed.keys() == {"bad2"}
        backend.execute(SchedulerOutput(release=("bad",)))
    else:
        assert step.failed.keys() == {"bad"}
        assert reason in step.failed["bad"]
    backend.check_integrity()
    while len(tokens) < 6:
        step = backend.execute(decode("good"))
        tokens += step.token_ids["good"]
    assert tokens == expected
    assert step.free_kv_blocks == 33 - 2 - 6


def test_a_restore_without_room_fails_that_request_alone(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=8)
    backend.execute(start(sequence()))
    step = backend.execute(start(sequence("b", prompt=range(3, 99)), offload=("a",)))
    assert not step.failed
    step = backend.execute(SchedulerOutput(restore=("a",), num_scheduled_tokens={"b": 1}))
    assert step.failed == {"a": "5 KV blocks are needed, 2 are free"}
    assert len(step.token_ids["b"]) == 1
    backend.check_integrity()


def test_the_second_request_of_a_name_fails(backend):
    backend.execute(start(sequence()))
    assert "not released" in backend.execute(start(sequence())).failed["a"]


def test_scheduling_an_offloaded_request_fails(backend):
    backend.execute(start(sequence()))
    step = backend.execute(SchedulerOutput(offload=("a",), num_scheduled_tokens={"a": 1}))
    assert "offloaded" in step.failed["a"]
    assert step.free_kv_blocks == 64


def test_a_sequence_may_fill_max_model_len_and_no_more(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=3)
    assert backend.info.max_model_len == 48
    step = backend.execute(start(sequence(prompt=[5] * 46)))
    for _ in range(2):
        step = backend.execute(decode("a"))
        assert not step.failed
    assert "max_model_len" in backend.execute(decode("a")).failed["a"]


def test_end_of_sequence_is_not_among_the_tokens(tmp_path, backend):
    tokens = generate(backend, sequence(), max_tokens=10)["a"]
    stop = tokens[4]
    first = tokens.index(stop)
    path = save_model(tmp_path / "model", eos_token_id=[stop, 2])
    ending = TorchBackend(path, num_kv_blocks=8)
    step = ending.execute(start(sequence()))
    received = list(step.token_ids["a"])
    while not step.finished:
        step = ending.execute(decode("a"))
        received += step.token_ids["a"]
    assert step.finished == {"a": FinishReason.STOP}
    assert step.token_ids == {"a": ()}
    assert received == tokens[:first]
    assert "finished" in ending.execute(decode("a")).failed["a"]


@pytest.mark.parametrize("temperature", [0.0, 1.0, 10.0])
def test_output_follows_the_grammar_and_ends_with_it(backend, temperature):
    grammar = 'start: "mf(" /[0-9]{1,3}/ "); tc(" /[0-9]{1,2}/ ");"'
    sampling = SamplingParams(temperature=temperature, seed=1)
    tokens = generate(backend, sequence(grammar=grammar, sampling=sampling), max_tokens=60)["a"]
    text = text_of(backend, tokens)
    forward, turn = text.removesuffix(");").split("); tc(")
    assert forward.removeprefix("mf(").isdigit()
    assert turn.isdigit()


def test_a_complete_grammar_finishes_with_its_last_token(backend):
    step = backend.execute(start(sequence(grammar='start: "a" "b"')))
    tokens = list(step.token_ids["a"])
    while not step.finished:
        step = backend.execute(decode("a"))
        tokens += step.token_ids["a"]
    assert step.token_ids["a"]
    assert text_of(backend, tokens) == "ab"


def test_sampling_depends_on_the_seed_and_not_on_the_batch(backend):
    hot = [sequence(str(seed), sampling=SamplingParams(temperature=1.0, seed=seed)) for seed in range(4)]
    together = generate(backend, *hot, sequence("other", range(100, 200)))
    alone = {s.request_id: generate(backend, s)[s.request_id] for s in hot}
    assert {name: together[name] for name in alone} == alone
    assert len({tuple(tokens) for tokens in alone.values()}) == 4


def test_a_request_with_infinite_numbers_fails_alone_and_leaves_nothing_behind(backend):
    expected = generate(backend, sequence("good"), max_tokens=8)["good"]
    backend.execute(start(sequence("bad", prompt=range(3, 60)), sequence("good")))
    poisoned = backend._states["bad"].blocks
    with torch.inference_mode():
        backend._runner.cache.pool[:, :, poisoned] = math.nan
    tokens = [backend._states["good"].token_ids[-1]]
    step = backend.execute(decode("bad", "good"))
    assert "not finite" in step.failed["bad"]
    tokens += step.token_ids["good"]
    while len(tokens) < 8:
        tokens += backend.execute(decode("good")).token_ids["good"]
    assert tokens == expected
    heirs = [sequence(str(index)) for index in range(4)]
    assert generate(backend, *heirs, max_tokens=8) == {h.request_id: expected for h in heirs}


def test_a_name_twice_fails_and_the_first_of_it_goes_on(backend):
    expected = generate(backend, sequence("a"), max_tokens=4)["a"]
    tokens = list(backend.execute(start(sequence("a"))).token_ids["a"])
    assert "not released yet" in backend.execute(start(sequence("a", range(100, 200)))).failed["a"]
    while len(tokens) < 4:
        tokens += backend.execute(decode("a")).token_ids["a"]
    assert tokens == expected
    backend.execute(SchedulerOutput(release=("a",)))
    backend.check_integrity()


class SlowClock(ManualClock):
    def now_s(self):
        self.advance(0.25)
        return super().now_s()


def test_duration_comes_from_the_clock(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=8, clock=SlowClock())
    assert backend.execute(SchedulerOutput()).duration_s == 0.25


@pytest.mark.parametrize("step", [SchedulerOutput(offload=("a",)), start(sequence("b"))])
def test_a_step_takes_until_the_device_is_done(llama_dir, monkeypatch, step):
    clock = ManualClock()
    backend = TorchBackend(llama_dir, num_kv_blocks=16, clock=clock)
    backend.execute(start(sequence("a")))
    monkeypatch.setattr(ModelRunner, "wait", lambda _: clock.advance(3.0))
    assert backend.execute(step).duration_s == 3.0


def test_close_twice_then_refuse(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=8)
    backend.execute(start(sequence()))
    backend.close()
    backend.close()
    with pytest.raises(PlannerError) as error:
        backend.execute(SchedulerOutput())
    assert error.value.code is ErrorCode.SHUTTING_DOWN


@pytest.mark.parametrize("settings", [{"device": "tpu9"}, {"device": "meta"}, {"device": "cuda:99"}, {"dtype": "int8"}])
def test_impossible_settings_are_refused(llama_dir, settings):
    with pytest.raises(PlannerError) as error:
        TorchBackend(llama_dir, **settings)
    assert error.value.code is ErrorCode.INVALID_CONFIG


def test_memory_sizes_the_cache_when_nothing_is_said(llama_dir):
    info = TorchBackend(llama_dir).info
    assert 512 // 16 <= info.num_kv_blocks <= 64 * 512 // 16
    assert info.max_model_len == 512


def test_a_cache_that_cannot_fit_is_out_of_memory(llama_dir):
    with pytest.raises(PlannerError) as error:
        TorchBackend(llama_dir, num_kv_blocks=10**12)
    assert error.value.code is ErrorCode.OUT_OF_MEMORY
