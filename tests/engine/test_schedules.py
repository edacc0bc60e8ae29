# SPDX-License-Identifier: Apache-2.0
"""Token identity of the engine with itself under any schedule, and KV conservation after every step."""

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import WHOLE, generate, save_adapter, save_model

pytestmark = pytest.mark.usefixtures("computed_by")

BLOCK_SIZE = 4
NUM_BLOCKS = 20  # besides the prefixes; fewer than all requests together need: some steps must fail for want of blocks
MAX_TOKENS = 24
PREFIX = tuple(range(40, 59))  # four full blocks and a rest
GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");" | "g(" /[a-z_]+/ ");")+\n'
FORCING = 'start: ("mf(1" /[0-9]/ "0);" | "g(" /[ab]/ "_box);" | "take_picture();")+\n'
KINDS = (
    {"prompt_token_ids": (*PREFIX, 5, 6, 7, 8), "prefix_id": "p"},
    {"prompt_token_ids": (*PREFIX[:16], 9), "prefix_id": "p"},
    {"prompt_token_ids": PREFIX[:17], "prefix_id": "p", "grammar": GRAMMAR},
    {"prompt_token_ids": (*PREFIX[:16], *range(90, 99)), "prefix_id": "p", "grammar": FORCING},
    {"prompt_token_ids": (100,)},
    {"prompt_token_ids": tuple(range(60, 81)), "sampling": SamplingParams(temperature=0.8, top_p=0.9, seed=3)},
    {
        "prompt_token_ids": tuple(range(200, 208)),
        "grammar": GRAMMAR,
        "sampling": SamplingParams(temperature=1.5, seed=4),
    },
    {"prompt_token_ids": (101,), "grammar": FORCING, "sampling": SamplingParams(temperature=0.9, seed=5)},
)
OTHERS = {
    "llama": WHOLE,
    "mistral": {"sliding_window": 10},  # no whole number of blocks, and shorter than the prefix
    "phi3": {},
    "qwen3_moe": {},
    "gemma2": {"sliding_window": 10, "attn_logit_softcapping": 2.0},
    "gemma3_text": {"sliding_window": 10, "layer_types": ["sliding_attention", "full_attention"]},
}


class Request:
    """What a test knows of one request that the engine runs."""

    def __init__(self, kind, num_prompt_tokens, num_cached):
        self.kind = kind
        self.left = num_prompt_tokens - num_cached
        self.num_cached = num_cached
        self.computed = num_cached
        self.num_drafted = 0
        self.tokens = []
        self.is_offloaded = False
        self.is_finished = False

    def blocks(self):
        shared = self.num_cached // BLOCK_SIZE
        return 0 if self.is_offloaded else -(-self.computed // BLOCK_SIZE) - shared


class Schedules(RuleBasedStateMachine):
    """Random admissions, chunks, batches, suspensions, preemptions, offloads, restores, releases; steps given up."""

    model_dir = None
    expected = None
    kinds = KINDS
    lookahead = "off"
    counts = None

    def __init__(self):
        super().__init__()
        prefixes = {kind["prefix_id"]: kind.get("adapter") for kind in self.kinds if "prefix_id" in kind}
        self.num_pinned = 4 * len(prefixes)
        self.backend = TorchBackend(
            self.model_dir,
            num_kv_blocks=NUM_BLOCKS + self.num_pinned,
            block_size=BLOCK_SIZE,
            lookahead=self.lookahead,
            adapters={kind["adapter"] for kind in self.kinds if "adapter" in kind},
        )
        cache = self.backend._runner.cache
        cache.max_gathered_blocks, cache.min_shared_blocks = 12, 1  # every way to group a decode batch
        for prefix_id, adapter in prefixes.items():
            assert self.backend.load_prefix(prefix_id, PREFIX, adapter) == 16
        self.requests = {}
        self.count = 0

    @rule(seed=st.integers(0, 2**32 - 1))  # one draw per step: hypothesis shrinks the steps, chance fills them
    def step(self, seed):
        rng = random.Random(seed)

        def some(names, share):
            return [name for name in names if rng.random() < share]

        release = [n for n, r in self.requests.items() if rng.random() < (0.5 if r.is_finished else 0.03)]
        for name in release:
            del self.requests[name]
        preempted = some((n for n, r in self.requests.items() if not r.is_finished), 0.05)
        returning = [self.preempt(name) for name in preempted]
        steady = [n for n in self.requests if n not in preempted]
        offload = some((n for n in steady if not self.requests[n].is_offloaded), 0.1)
        restore = some((n for n in steady if self.requests[n].is_offloaded), 0.4)
        for name in [*offload, *restore]:
            self.requests[name].is_offloaded = name in offload
        new = [*returning, *self.admit(rng)]
        runnable = [n for n, r in self.requests.items() if not r.is_offloaded and not r.is_finished]
        scheduled = {n: self.some_tokens(self.requests[n], rng) for n in some(runnable, 0.8)}
        gives_up_at = rng.random() if rng.random() < 0.15 else 1.0
        self.backend.interrupt_by(lambda share: share >= gives_up_at)
        output = self.backend.execute(
            SchedulerOutput(
                release=(*release, *preempted),
                offload=tuple(offload),
                restore=tuple(restore),
                new=tuple(new),
                num_scheduled_tokens=scheduled,
            )
        )
        for name in output.failed:
            assert "KV blocks are needed" in output.failed[name]
            del self.requests[name]
            scheduled.pop(name, None)
        if output.is_given_up:
            self.check_given_up(scheduled, output)
        else:
            for name, count in scheduled.items():
                self.check_tokens(name, count, output)
        self.backend.check_integrity()
        held = sum(request.blocks() for request in self.requests.values())
        assert output.free_kv_blocks == NUM_BLOCKS - held

    @staticmethod
    def some_tokens(request, rng):
        """Returns how many of its tokens are computed; drafts only behind all that have to be."""
        most = request.left + request.num_drafted
        return most if rng.random() < 0.5 else rng.randint(1, most)

    def preempt(self, name):
        """Takes all KV from a request and has it come back with its tokens, without a shared prefix."""
        request = self.requests[name]
        prompt = self.kinds[request.kind]["prompt_token_ids"]
        again = self.requests[name] = Request(request.kind, len(prompt), 0)
        again.tokens = request.tokens
        again.left += len(request.tokens)
        return Sequence(request_id=name, output_token_ids=tuple(request.tokens), **self.kinds[request.kind])

    def admit(self, rng):
        if len(self.requests) >= 6 or rng.random() < 0.6:
            return []
        kind = rng.randrange(len(self.kinds))
        num_tokens = len(self.kinds[kind]["prompt_token_ids"])
        longest = min(16, num_tokens - 1) if "prefix_id" in self.kinds[kind] else 0
        num_cached = BLOCK_SIZE * rng.randint(0, longest // BLOCK_SIZE)
        self.count += 1
        name = f"r{self.count}"
        self.requests[name] = Request(kind, num_tokens, num_cached)
        return [Sequence(request_id=name, num_cached_tokens=num_cached, **self.kinds[kind])]

    def check_given_up(self, scheduled, output):
        self.counts["given up"] += 1
        assert not output.token_ids
        assert not output.finished
        assert output.step.num_scheduled_tokens == dict.fromkeys(output.step.num_scheduled_tokens, 0)
        for name in scheduled:
            assert output.num_draft_tokens[name] == self.requests[name].num_drafted

    def check_tokens(self, name, count, output):
        request = self.requests[name]
        num_rejected, num_verified = output.num_rejected_tokens.get(name, 0), max(0, count - request.left)
        request.left -= count - num_rejected
        request.computed += count - num_rejected
        if request.left > 0:
            assert name not in output.token_ids
            return
        tokens = output.token_ids[name]
        request.tokens += tokens
        request.left += len(tokens)
        request.num_drafted = output.num_draft_tokens[name]
        request.is_finished = name in output.finished or len(request.tokens) >= MAX_TOKENS
        assert request.is_finished or request.left >= 1
        self.counts["accepted"] += num_verified - num_rejected
        self.counts["rejected"] += num_rejected
        self.counts["forced"] += max(0, request.left - 1)
        expected = self.expected[request.kind]
        common = min(len(request.tokens), MAX_TOKENS)
        assert request.tokens[:common] == expected[:common]
        if name in output.finished:
            assert request.tokens[:MAX_TOKENS] == expected

    def teardown(self):
        self.backend.execute(SchedulerOutput(release=tuple(self.requests)))
        self.backend.check_integrity()
        assert self.backend.execute(SchedulerOutput()).free_kv_blocks == NUM_BLOCKS


@pytest.fixture(scope="module")
def expected(llama_dir):
    """Every kind of request alone, uninterrupted, in one chunk, without a shared prefix."""
    return alone(llama_dir, KINDS)


def alone(llama_dir, kinds):
    adapters = {kind["adapter"] for kind in kinds if "adapter" in kind}
    backend = TorchBackend(llama_dir, num_kv_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, adapters=adapters)
    return [
        generate(backend, Sequence(request_id="a", **(kind | {"prefix_id": None})), max_tokens=MAX_TOKENS)["a"]
        for kind in kinds
    ]


@pytest.mark.parametrize("lookahead", ["off", "forced", "always"])
def test_any_schedule_gives_the_same_tokens(llama_dir, expected, lookahead):
    run_schedules(llama_dir, expected, lookahead, max_examples=40)


@pytest.mark.usefixtures("layout")
def test_any_schedule_gives_the_same_tokens_with_packed_weights(llama_dir, expected):
    run_schedules(llama_dir, expected, "always", max_examples=20)


@pytest.mark.parametrize("family", OTHERS)
def test_any_schedule_of_another_family_gives_the_same_tokens(family, tmp_path):
    model_dir = save_model(tmp_path / "model", family, seed=1, **OTHERS[family])
    run_schedules(model_dir, alone(model_dir, KINDS), "always", max_examples=15)


@pytest.mark.parametrize("lookahead", ["off", "always"])
def test_any_schedule_of_several_adapters_gives_the_same_tokens(llama_dir, tmp_path, lookahead):
    adapters = [save_adapter(tmp_path / name, llama_dir, seed=seed) for seed, name in enumerate("xy")]

    def adapted(kind, adapter):
        return kind | {"adapter": adapter} | ({"prefix_id": f"p of {adapter}"} if "prefix_id" in kind else {})

    kinds = [*KINDS, *(adapted(kind, adapter) for kind in KINDS for adapter in adapters)]
    expected = alone(llama_dir, kinds)
    assert len(set(map(tuple, expected))) == len(kinds), "an adapter changes nothing: the comparison would prove little"
    run_schedules(llama_dir, expected, lookahead, max_examples=20, kinds=kinds)


def run_schedules(llama_dir, expected, lookahead, max_examples, kinds=KINDS):
    assert all(len(set(tokens)) > 2 for tokens in expected), expected
    counts = Counter()
    fields = {
        "model_dir": llama_dir,
        "expected": expected,
        "kinds": kinds,
        "lookahead": lookahead,
        "counts": counts,
    }
    machine = type("Machine", (Schedules,), fields)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=max_examples, stateful_step_count=40, deadline=None)
    )
    assert (counts["forced"] > 0) == (lookahead != "off")
    assert counts["given up"] > 0
    assert (counts["accepted"] > 0) == (counts["rejected"] > 0) == (lookahead == "always")
