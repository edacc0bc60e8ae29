# SPDX-License-Identifier: Apache-2.0
"""Several tokens per step: the text of one token per step, the blocks given back."""

import random

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_planner.core.errors import PlannerError
from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.drafting import MAX_DRAFT_TOKENS, StepCost
from llm_planner.engine.grammar import GrammarCompiler, mask_words, unpack_mask
from llm_planner.engine.lookahead import MODES, measure_step_cost
from tests.engine.builders import VOCAB_SIZE, save_model

GRAMMARS = (
    'start: ("mf(1" /[0-9]/ "0);" | "g(" /[ab]/ "_box);" | "take_picture();")+\n',
    'start: ("pick(" name ");" "place(" name ", " name ");")+\nname: /[a-z]{1,6}(_[a-z]{1,6})?/\n',
    'start: "?iv(" /[a-f]+/ ")==" ("True" | "False") "{" ("mf(100);" | "tc(90);"){1,4} "}"\n',
)


def make(path, lookahead, **fields):
    return TorchBackend(path, num_kv_blocks=128, block_size=4, lookahead=lookahead, **fields)


def write(backend, *sequences, max_tokens=48, evict=()):
    """Returns the tokens of each sequence, and the number of steps; every step takes all that is offered.

    From ``evict``, KV goes as soon as the prompts are computed.
    """
    tokens = {s.request_id: [] for s in sequences}
    scheduled = {s.request_id: len(s.prompt_token_ids) - s.num_cached_tokens for s in sequences}
    step, num_steps = backend.execute(SchedulerOutput(new=sequences, num_scheduled_tokens=scheduled)), 1
    computed = {s.request_id: len(s.prompt_token_ids) for s in sequences}
    prompts = dict(computed)
    while True:
        assert not step.failed, step.failed
        scheduled = {}
        for name, new in step.token_ids.items():
            tokens[name] += new
            if name not in step.finished and len(tokens[name]) < max_tokens:
                left = prompts[name] + len(tokens[name]) - computed[name]
                scheduled[name] = left + step.num_draft_tokens[name]
        if not scheduled:
            break
        step = backend.execute(SchedulerOutput(evict=dict(evict), num_scheduled_tokens=scheduled))
        assert not step.failed, step.failed
        evict, num_steps = (), num_steps + 1
        for name, count in scheduled.items():
            computed[name] += count - step.num_rejected_tokens[name]
        backend.check_integrity()
    backend.execute(SchedulerOutput(release=tuple(tokens)))
    return {name: ids[:max_tokens] for name, ids in tokens.items()}, num_steps


def masked_greedy(path, prompt, grammar, num_tokens):
    """The textbook: one token at a time, the largest logit of the mask; by transformers and llguidance."""
    tokenizer_json = (path / "tokenizer.json").read_text()
    matcher = GrammarCompiler(tokenizer_json, VOCAB_SIZE, {2}).matcher(grammar)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    ids = list(prompt)
    while len(ids) - len(prompt) < num_tokens and not matcher.is_complete:
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0, -1]
        words = torch.zeros(1, mask_words(VOCAB_SIZE), dtype=torch.int32)
        matcher.fill_mask(words[0])
        token = int(logits.masked_fill(~unpack_mask(words, VOCAB_SIZE)[0], -torch.inf).argmax())
        assert matcher.try_accept(token)
        ids.append(token)
    return [token for token in ids[len(prompt) :] if token != 2]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_every_mode_gives_the_textbook_tokens(family, tmp_path):
    path = save_model(tmp_path / "model", family, seed=3)
    sequences = [
        Sequence(request_id=f"{index}", prompt_token_ids=tuple(range(30 + index, 60 + 2 * index)), grammar=grammar)
        for index, grammar in enumerate(GRAMMARS)
    ]
    expected = {s.request_id: masked_greedy(path, s.prompt_token_ids, s.grammar, 48) for s in sequences}
    steps = {}
    for lookahead in MODES:
        backend = make(path, lookahead)
        for _ in range(2):  # the second time it has seen such plans before
            tokens, steps[lookahead] = write(backend, *sequences)
            assert tokens == expected, lookahead
    assert steps["always"] <= steps["prompt"] <= steps["forced"] < steps["off"]
    assert steps["always"] < steps["forced"]  # a random model names little of what is in its prompt


@pytest.mark.parametrize("method", ["snapkv", "streaming"])
def test_evicted_sequences_write_the_same_too(llama_dir, method):
    sequences = [
        Sequence(request_id=name, prompt_token_ids=tuple(range(30, 90)), grammar=grammar, evictable=((2, 50),))
        for name, grammar in zip("abc", GRAMMARS, strict=True)
    ]
    plain, ahead = (
        write(make(llama_dir, mode, eviction_method=method), *sequences, evict={"a": 24, "b": 12}.items())
        for mode in ("off", "always")
    )
    assert plain[0] == ahead[0] != write(make(llama_dir, "off"), *sequences)[0]
    assert ahead[1] < plain[1]


@pytest.mark.parametrize("seed", range(3))
def test_sampling_gives_the_same_tokens_with_forced_ones(llama_dir, seed):
    sampling = SamplingParams(temperature=1.2, top_p=0.95, seed=seed)
    sequence = Sequence(request_id="a", prompt_token_ids=(9, 8, 7), grammar=GRAMMARS[0], sampling=sampling)
    (plain, plain_steps), (ahead, ahead_steps) = (write(make(llama_dir, mode), sequence) for mode in ("off", "always"))
    assert plain == ahead
    assert ahead_steps < plain_steps


def test_nothing_is_drafted_for_one_that_samples(llama_dir):
    backend = make(llama_dir, "always")
    sampled = Sequence(request_id="a", prompt_token_ids=(9,) * 8, sampling=SamplingParams(temperature=0.5))
    step = backend.execute(SchedulerOutput(new=(sampled,), num_scheduled_tokens={"a": 8}))
    for _ in range(10):
        assert step.num_draft_tokens["a"] == 0
        step = backend.execute(SchedulerOutput(num_scheduled_tokens={"a": 1}))


def test_a_free_grammar_forces_nothing_and_its_mask_is_what_it_accepts(llama_dir):
    """Why a forced token is the choice of the mask, and any other greedy choice too."""
    compiler = GrammarCompiler((llama_dir / "tokenizer.json").read_text(), VOCAB_SIZE, {2})
    rng, num_forced = random.Random(0), 0
    for grammar in GRAMMARS * 8:
        matcher = compiler.matcher(grammar)
        for _ in range(40):
            if matcher.is_complete:
                break
            words = torch.zeros(1, mask_words(VOCAB_SIZE), dtype=torch.int32)
            matcher.fill_mask(words[0])
            allowed = unpack_mask(words, VOCAB_SIZE)[0].nonzero().flatten().tolist()
            accepted = [token for token in range(VOCAB_SIZE) if matcher.allows(token)]
            forced = matcher.forced_token()
            num_forced += forced is not None
            assert allowed == (accepted if forced is None else [forced])
            assert matcher.try_accept(rng.choice([t for t in accepted if t != 2] or accepted))
    assert num_forced > 50


def test_more_than_was_offered_is_refused(llama_dir):
    backend = make(llama_dir, "always")
    sequence = Sequence(request_id="a", prompt_token_ids=tuple(range(40, 60)))
    step = backend.execute(SchedulerOutput(new=(sequence,), num_scheduled_tokens={"a": 20}))
    count = 2 + step.num_draft_tokens["a"]
    step = backend.execute(SchedulerOutput(num_scheduled_tokens={"a": count}))
    assert "left to compute" in step.failed["a"]


def test_an_unknown_mode_names_the_known_ones(llama_dir):
    with pytest.raises(PlannerError, match="known are auto, always, prompt, forced, off"):
        make(llama_dir, "sometimes")


class Ticking:
    """A clock that moves on by a second with each look."""

    def __init__(self):
        self.time_s = 0.0

    def now_s(self):
        self.time_s += 1.0
        return self.time_s


@pytest.mark.parametrize("num_kv_blocks", [1, 3, 64])
def test_the_cost_of_a_step_is_measured_in_any_cache(llama_dir, num_kv_blocks):
    backend = TorchBackend(llama_dir, num_kv_blocks=num_kv_blocks, block_size=8)
    with torch.inference_mode():
        cost = measure_step_cost(backend._runner, Ticking())
    assert cost == StepCost(1.0, 0.0)  # every look takes the same
    backend.check_integrity()


@pytest.mark.parametrize(("max_model_len", "block_size"), [(1, 16), (2, 16), (64, 16), (137, 16), (64, 1024)])
def test_the_cost_of_a_step_is_measured_in_any_context(tmp_path, max_model_len, block_size):
    path = save_model(tmp_path / "model", max_position_embeddings=max_model_len)
    TorchBackend(path, lookahead="auto", num_kv_blocks=16, block_size=block_size).close()


def test_drafts_pay_by_what_they_save():
    assert StepCost(1.0, 0.0).least_probability(100) == 0.1
    assert StepCost(0.9, 0.3).least_probability(1) == pytest.approx(0.25)
    assert StepCost(0.8, 0.4).least_probability(16) == pytest.approx(0.4 / 0.45)
    assert StepCost(0.0, 1.0).least_probability(1) == 1.0
    assert MAX_DRAFT_TOKENS <= 8
