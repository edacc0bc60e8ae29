# SPDX-License-Identifier: Apache-2.0
"""Which of vLLM's requests go into the next micro-batch."""

from llm_planner.backends.vllm.micro_batches import Candidate, MicroBatches
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.pacer import Share
from llm_planner.scheduling.pipeline.pacers import make_pacer

TIMES = PipelineTimes(compute_base_s=1e-4, compute_per_token_s=1e-3)


class FixedPacer:
    def __init__(self, **share):
        self.share = Share(**{"num_in_flight": 2, "token_budget": 100} | share)
        self.loads, self.prefills = [], []

    def next(self, load, num_in_flight):
        self.loads.append((load, num_in_flight))
        return self.share

    def scheduled(self, num_prefill_tokens):
        self.prefills.append(num_prefill_tokens)


def decode(name, num_tokens=1, **others):
    return Candidate(request_id=name, num_tokens=num_tokens, kv_tokens=10, **others)


def prompt(name, num_tokens=30, *, is_begun=False, **others):
    return Candidate(request_id=name, num_tokens=num_tokens, is_begun=is_begun, **others)


def test_counts_what_there_is_to_do():
    pacer = FixedPacer()
    flying = decode("b", num_tokens=0)
    begun = prompt("p", 20, is_begun=True)
    MicroBatches(pacer).choose([decode("a", is_urgent=True), flying, begun, prompt("q", 30), prompt("r", 40)], 1)
    load, num_in_flight = pacer.loads[0]
    assert num_in_flight == 1
    assert (load.num_decodes, load.num_ready, load.num_urgent_ready, load.kv_tokens) == (2, 1, 1, 20)
    assert (load.num_prefill_tokens, load.next_prompt_tokens, load.waiting_tokens) == (20, 30, 70)


def test_takes_as_many_as_the_share_says_urgent_ones_first():
    batches = MicroBatches(FixedPacer(num_decodes=2, num_prompts=1))
    candidates = [decode("a"), decode("b"), decode("c", is_urgent=True), prompt("p"), prompt("q", is_urgent=True)]
    assert batches.choose(candidates, 0) == (["c", "a", "q"], 100)


def test_an_urgent_prompt_does_not_wait_for_one_that_has_begun():
    batches = MicroBatches(FixedPacer())
    assert batches.choose([prompt("old", is_begun=True), prompt("new", is_urgent=True)], 0)[0] == ["new"]
    assert batches.choose([prompt("old", is_begun=True), prompt("new")], 0)[0] == ["old", "new"]


def test_no_request_runs_when_all_are_in_flight_or_enough_micro_batches_are():
    pacer = FixedPacer()
    batches = MicroBatches(pacer)
    assert batches.choose([decode("a", num_tokens=0)], 1) == ([], 0)
    assert not pacer.loads
    assert batches.choose([decode("a")], 2) == ([], 0)
    pacer.share = Share(num_in_flight=2, token_budget=0)
    assert batches.choose([decode("a")], 0) == ([], 0)


def test_says_how_many_prompt_tokens_a_micro_batch_holds():
    pacer = FixedPacer()
    batches = MicroBatches(pacer)
    batches.choose([decode("a"), prompt("p")], 0)
    batches.scheduled({})
    batches.scheduled({"a": 1, "p": 17})
    assert pacer.prefills == [17]


def test_ours_splits_what_is_ready_among_the_stages():
    batches = MicroBatches(make_pacer("balanced", 2, 2048, TIMES))
    everybody = [f"r{i}" for i in range(8)]
    first, _ = batches.choose([decode(name) for name in everybody], 0)
    second, _ = batches.choose([decode(name, num_tokens=name not in first) for name in everybody], 1)
    assert len(first) == len(second) == 4
    assert sorted(first + second) == everybody
