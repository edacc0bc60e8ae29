# SPDX-License-Identifier: Apache-2.0
"""What a server is asked at the start: what is missing is named, with its number and what to change."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from llm_planner.backends.openai import backend
from llm_planner.backends.openai.dialect import DIALECTS
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.output_tokens import OutputTokens
from llm_planner.backends.openai.probe import Probe
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from tests.backends.openai.builders import TOKENIZER, make_backend

SERVERS = ["vllm", "sglang", "llamacpp"]


def refusal(at, *lacks) -> PlannerError:
    at.order(lacks=lacks)
    with pytest.raises(PlannerError) as caught:
        make_backend(at).close()
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert at.base_url in caught.value.message
    return caught.value


def said(at, caplog, *lacks, **config) -> str:
    caplog.set_level("INFO", logger="llm_planner.backends.openai.backend")
    at.order(lacks=lacks)
    make_backend(at, **config).close()
    return caplog.text


@pytest.mark.parametrize("owned_by", SERVERS)
def test_a_server_that_does_all_is_said_to(server, owned_by, caplog):
    server.order(owned_by=owned_by)
    text = said(server, caplog)
    ids = "no" if owned_by == "llamacpp" else "yes"
    cancel = "not told" if owned_by == "sglang" else "yes"
    assert f"({owned_by}): token ids in answers: {ids}; prefix reuse: 288 of 300 tokens; cancel: {cancel}" in text


def test_a_probe_counts_as_no_request_of_a_goal(server):
    make_backend(server).close()
    assert not server.stats["requests"]


@pytest.mark.parametrize("lacking", ["completions", "token ids", "one prompt"])
def test_prompts_of_token_ids_are_needed(server, lacking):
    message = refusal(server, lacking).message
    assert "lacks token ids" in message
    assert "use vLLM, SGLang or llama.cpp's own llama-server" in message
    assert "prompts of engine.model are raw text" in message


@pytest.mark.parametrize("owned_by", SERVERS)
def test_a_grammar_that_is_ignored_is_noticed(server, owned_by):
    server.order(owned_by=owned_by)
    message = refusal(server, "grammar").message
    assert f"({owned_by}) lacks grammar: asked for 'zq7x' alone, it wrote 'yes'" in message
    assert DIALECTS[owned_by].grammar_help in message
    assert "openai.server: other" in message


def test_a_grammar_that_is_refused_is_no_riddle(server):
    message = refusal(server, "grammars").message
    assert "lacks grammar: it refuses one" in message
    assert "this grammar backend reads no grammars" in message


def test_without_a_grammar_none_is_asked_for(server, caplog):
    assert "not kept to the grammar" in said(server, caplog, "grammar", server="other")


@pytest.mark.parametrize("owned_by", SERVERS)
def test_a_tokenizer_of_another_model_is_noticed(server, owned_by):
    server.order(owned_by=owned_by)
    assert (
        "lacks tokens: its tokens spell other texts than those of engine.model" in refusal(server, "vocabulary").message
    )


def test_a_server_without_prefix_reuse_is_warned_of(server, caplog):
    text = said(server, caplog, "prefix")
    assert "prefix reuse: the server computed all 300 tokens of a prompt that it had just read" in text


@pytest.mark.parametrize("owned_by", ["vllm", "llamacpp"])
def test_a_server_that_writes_on_is_warned_of(server, owned_by, caplog):
    server.order(owned_by=owned_by)
    assert "cancel: the server still wrote 2 s after its client had left" in said(server, caplog, "cancel")


@pytest.mark.parametrize("lacking", ["usage", "gauge"])
def test_what_a_server_does_not_say_is_not_made_up(server, lacking, caplog):
    what = {"usage": "prefix reuse", "gauge": "cancel"}[lacking]
    assert f"{what}: not told" in said(server, caplog, lacking)
    assert [r.levelname for r in caplog.records].count("WARNING") == 1  # of what no server can do


@pytest.mark.parametrize("lacking", ["model", "models"])  # the second does not even name them before
def test_a_server_that_still_loads_its_model_is_waited_for(server, lacking, caplog):
    server.order(lacks=[lacking])
    timer = threading.Timer(0.5, server.order, kwargs={"lacks": []})
    timer.start()
    make_backend(server).close()
    timer.join()
    assert "Loading model; asking again" in caplog.text


def test_the_time_that_a_silent_server_takes_counts():
    now_s, asked = [0.0], []

    async def ask():
        asked.append(now_s[0])
        now_s[0] += 30.0
        raise ServerError(ErrorCode.SERVER_UNREACHABLE, "it is silent", is_final=False)

    clock = SimpleNamespace(now_s=lambda: now_s[0])
    with pytest.raises(ServerError, match="silent"):
        asyncio.run(backend._patiently(ask, 20.0, clock))
    assert asked == [0.0, 30.0]


@pytest.mark.parametrize("must_answer", [False, True])
def test_one_that_says_nothing_is_not_asked_again_for_its_models(must_answer):
    errors = [
        ServerError(ErrorCode.ENGINE_FAILED, "it loads", is_final=False, status=503),
        ServerError(ErrorCode.SERVER_UNREACHABLE, "it is silent", is_final=False),
    ]

    async def ask():
        if errors:
            raise errors.pop(0)
        return "an answer"

    asking = backend._patiently(ask, 20.0, MonotonicClock(), must_answer=must_answer)
    if not must_answer:
        assert asyncio.run(asking) == "an answer"
        return
    with pytest.raises(ServerError, match="silent"):
        asyncio.run(asking)


@pytest.mark.parametrize("lacking", ["model", "models"])
def test_it_is_not_waited_for_without_end(server, lacking):
    server.order(lacks=[lacking])
    with pytest.raises(PlannerError, match="answers 503: Loading model") as caught:
        make_backend(server, retry_s=0.2)
    assert caught.value.code is ErrorCode.ENGINE_FAILED


class Messages:
    """A server that takes messages only, and notes how much it is asked to write."""

    url = "http://127.0.0.1:9/v1"

    def __init__(self):
        self.asked = []

    async def ask(self, path, body):
        if path == "completions":
            raise ServerError(ErrorCode.ENGINE_FAILED, "there is none", is_final=True, status=404)
        self.asked.append(body["max_tokens"])
        return {"choices": [{"message": {"content": '{"plan": ""}'}}]}


def test_a_chat_is_asked_for_no_more_than_fits():
    server = Messages()
    options = {"tokens": OutputTokens(TOKENIZER), "has_raw_prompts": False}
    probe = Probe(server, dialect=DIALECTS["other"], model="m", max_model_len=512, **options)
    assert asyncio.run(probe.run()).writes_json
    assert server.asked == [256, 256]
