# SPDX-License-Identifier: Apache-2.0
"""What is drafted behind requests of vLLM, with fakes in the place of vLLM's requests and workers."""

from types import SimpleNamespace

import pytest

from llm_planner.backends.vllm.drafts import Drafts
from llm_planner.core.errors import PlannerError
from llm_planner.core.step import SamplingParams
from llm_planner.engine.grammar import GrammarCompiler
from llm_planner.engine.tokenizer import load_tokenizer
from tests.engine.builders import VOCAB_SIZE, save_model, sequence

FORCED = 'start: "mf(100);" /[a-c]/ "tc(90);"\n'
FREE = "start: /[a-z_();]+/\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(save_model(tmp_path_factory.mktemp("drafts")))


class FakeRequest:
    """As much of vLLM's request as drafts are made from."""

    def __init__(self, tokenizer, grammar):
        compiler = GrammarCompiler(tokenizer.json_text, VOCAB_SIZE, tokenizer.eos_token_ids)
        self._matcher = compiler.matcher(grammar)
        compiled = SimpleNamespace(ll_matcher=self._matcher._matcher)
        self.structured_output_request = SimpleNamespace(grammar=compiled)
        self.spec_token_ids = []

    def write(self, token_ids):
        for token_id in token_ids:
            assert self._matcher.try_accept(token_id)


def drafted(drafts, request, token_ids=(), *, max_tokens=99, name="a"):
    request.write(token_ids)
    drafts.extend(name, request, token_ids, max_tokens, 1)
    return request.spec_token_ids


@pytest.mark.parametrize("mode", ["forced", "prompt", "always"])
def test_what_the_grammar_forces_is_drafted_and_ends_where_it_leaves_a_choice(tokenizer, mode):
    request, drafts = FakeRequest(tokenizer, FORCED), Drafts(mode)
    drafts.open(sequence("a", prompt=[3], grammar=FORCED))
    text = tokenizer.encode("mf(100);")
    assert drafted(drafts, request, text[:1]) == text[1:]
    assert drafted(drafts, request, text[1:]) == []
    assert drafted(drafts, request, tokenizer.encode("b")) == tokenizer.encode("tc(90);")[:8]


def test_a_plan_like_an_earlier_one_is_drafted_as_far_as_there_is_room(tokenizer):
    plan = tokenizer.encode("go_up();go_down();go_up();")
    for mode, num_drafted in (("forced", 0), ("always", 3)):
        drafts = Drafts(mode)
        for name in ("first", "second"):
            request = FakeRequest(tokenizer, FREE)
            drafts.open(sequence(name, prompt=[3], grammar=FREE))
            got = [drafted(drafts, request, [token_id], max_tokens=3, name=name) for token_id in plan]
            drafts.forget(name)
        assert got[5] == plan[6 : 6 + num_drafted]
    assert drafted(drafts, FakeRequest(tokenizer, FREE), plan[:4]) == []  # forgotten


@pytest.mark.parametrize(("mode", "temperature"), [("off", 0.0), ("always", 0.5)])
def test_nothing_is_drafted_for_one_that_samples_or_where_it_is_off(tokenizer, mode, temperature):
    request, drafts = FakeRequest(tokenizer, FORCED), Drafts(mode)
    drafts.open(sequence("a", prompt=[3], grammar=FORCED, sampling=SamplingParams(temperature=temperature)))
    assert drafted(drafts, request, tokenizer.encode("mf(100);")[:1]) == []


def test_nothing_is_drafted_without_room(tokenizer):
    request, drafts = FakeRequest(tokenizer, FORCED), Drafts("always")
    drafts.open(sequence("a", prompt=[3], grammar=FORCED))
    assert drafted(drafts, request, tokenizer.encode("mf(100);")[:1], max_tokens=0) == []


def test_an_unknown_mode_is_refused():
    with pytest.raises(PlannerError, match="known are"):
        Drafts("sometimes")
