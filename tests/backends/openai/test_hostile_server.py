# SPDX-License-Identifier: Apache-2.0
"""Servers that answer anything: every answer is a chunk or one of our errors, in bounded memory."""

import asyncio
import contextlib
import gzip
import json
import random
import socket
import threading
from unittest.mock import Mock

import pytest

from llm_planner.backends.openai import server as module
from llm_planner.backends.openai.dialect import DIALECTS
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.probe import WORD
from llm_planner.backends.openai.server import Chunk, ModelServer
from llm_planner.backends.openai.stream import Stream, StreamEnd
from llm_planner.core.config import OpenAIConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from tests.hostile import damaged_bytes, damaged_json

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHOICE = {"choices": [{"index": 0, "text": "mf(50);", "token_ids": [5, 6], "finish_reason": None}]}
LAST = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
MODELS = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}
USAGE = {"prompt_tokens": 300, "prompt_tokens_details": {"cached_tokens": 288}}
PROBED = {"choices": [{"text": WORD, "token_ids": [5, 6], "message": {"content": WORD}}], "usage": USAGE}
BODY = {"prompt": [1, 2], "max_tokens": 50}


def event(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class Hostile:
    """Sends the same to every client that connects, as long as it reads."""

    def __init__(self, *pieces, repeat=b""):
        self.pieces, self.repeat, self.num_bytes = pieces, repeat, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    for piece in self.pieces:
                        connection.sendall(piece)
                    while self.repeat:
                        connection.sendall(self.repeat)
                        self.num_bytes += len(self.repeat)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(
                        65536
                    ):  # closing with a part of the request unread would reset the connection
                        pass

    def ask(self, what, **options):
        """Returns the models, the chunks of a completion, or what a probe finds."""
        config = OpenAIConfig(base_url=f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1", stall_timeout_s=5.0)

        async def talk():
            server = ModelServer(config, None)
            try:
                return (
                    await server.models()
                    if what == "models"
                    else [c async for c in server.complete("completions", BODY)]
                )
            finally:
                await server.close()

        with contextlib.closing(self.listener):
            return asyncio.run(talk())


def test_a_good_stream_is_read_whatever_its_pieces():
    whole = OK + b": hello\n\n" + event(CHOICE).replace(b"\n", b"\r\n") + event(LAST)
    chunks = Hostile(*(whole[i : i + 7] for i in range(0, len(whole), 7))).ask("complete")
    assert [(chunk.text, chunk.token_ids, chunk.finish_reason) for chunk in chunks] == [
        ("mf(50);", (5, 6), None),
        ("", None, "stop"),
    ]


def test_no_error_and_no_reason_may_be_spelled_out():
    first = {"error": None, "choices": [CHOICE["choices"][0] | {"finish_reason": ""}]}
    chunks = Hostile(OK, event(first), event({"error": "", **LAST})).ask("complete")
    assert [(chunk.text, chunk.finish_reason) for chunk in chunks] == [("mf(50);", None), ("", "stop")]


@pytest.mark.parametrize(
    ("repeat", "reason"),
    [
        (b"x" * 65_536, "a line, or a stream, without an end"),
        (b": still here\n\n" * 5_000, "a line, or a stream, without an end"),
        (event({"choices": []}) * 2_000, "a line, or a stream, without an end"),
        (event(CHOICE), "more than the 50 tokens"),
    ],
    ids=["a line", "comments", "empty events", "tokens"],
)
def test_a_stream_without_an_end_is_left(monkeypatch, repeat, reason):
    monkeypatch.setattr(module, "MAX_EVENT_BYTES", 100_000)
    hostile = Hostile(OK, repeat=repeat)
    with pytest.raises(ServerError, match=reason):
        hostile.ask("complete")
    assert hostile.num_bytes < 10_000_000


def test_comments_do_not_keep_a_stream_alive_for_ever(monkeypatch):
    monkeypatch.setattr(module, "MOST_STALLS", 0.01)
    with pytest.raises(ServerError, match="nothing but comments") as raised:
        Hostile(OK, event(CHOICE), repeat=b": ping\n\n").ask("complete")
    assert raised.value.code is ErrorCode.SERVER_UNREACHABLE
    assert not raised.value.is_final


def test_empty_events_do_not_keep_a_stream_alive_for_ever(monkeypatch):
    monkeypatch.setattr(module, "MOST_STALLS", 0.01)
    empty = event({"choices": [{"text": ""}]})
    with pytest.raises(ServerError, match="nothing but empty events") as raised:
        Hostile(OK, event(CHOICE), repeat=empty).ask("complete")
    assert raised.value.code is ErrorCode.SERVER_UNREACHABLE


def test_an_answer_that_drips_is_left(monkeypatch):
    monkeypatch.setattr(module, "MOST_STALLS", 0.01)
    with pytest.raises(ServerError, match="no whole answer") as raised:
        Hostile(b"HTTP/1.1 503 No\r\nConnection: close\r\n\r\n", repeat=b"x").ask("complete")
    assert raised.value.code is ErrorCode.SERVER_UNREACHABLE


@pytest.mark.parametrize("what", ["models", "complete"])
@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
def test_an_answer_without_an_end_is_left(monkeypatch, what, status):
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 100_000)
    monkeypatch.setattr(module, "MAX_EVENT_BYTES", 100_000)
    hostile = Hostile(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n\r\n", repeat=b"[" * 65_536)
    with pytest.raises(ServerError, match="bytes"):
        hostile.ask(what)


@pytest.mark.parametrize("what", ["models", "complete"])
def test_a_compressed_answer_is_not_unpacked(what):
    packed = gzip.compress(b"data: " + bytes(10_000_000))
    head = OK.replace(b"Connection", b"Content-Encoding: gzip\r\nConnection")
    with pytest.raises(ServerError, match="compressed with 'gzip'") as raised:
        Hostile(head, packed).ask(what)
    assert raised.value.is_final


def test_texts_of_a_server_do_not_control_the_terminal():
    body = json.dumps({"error": {"message": "no\x1b[2J\nway" + "x" * 5_000}}).encode()
    answer = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with pytest.raises(ServerError, match="answers 500: no") as raised:
        Hostile(answer).ask("models")
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 500


@pytest.mark.parametrize("length", [0, -1, 10**30, "many", [4096], 1e400])
def test_a_model_of_impossible_length_is_no_model(length):
    answer = json.dumps({"data": [{"id": "m", "max_model_len": length or -1}]}).encode()
    with pytest.raises(ServerError, match="no list of models"):
        Hostile(OK, answer).ask("models")


@pytest.mark.parametrize(
    ("entry", "length"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 131_072}}, 2048),
        ({"meta": {"n_ctx_train": 131_072}}, 131_072),
        ({"meta": None}, None),
    ],
    ids=["vllm", "llamacpp", "older llamacpp", "llamacpp while it loads"],
)
def test_the_length_is_that_of_the_server_before_that_of_the_model(entry, length):
    answer = json.dumps({"data": [{"id": "m", **entry}]}).encode()
    assert Hostile(OK, answer).ask("models")[0].max_model_len == length


@pytest.mark.parametrize("token", [-1, 2**40, 10**400, 0.5, "5", None, [5]])
def test_what_is_no_token_is_no_completion(token):
    line = json.dumps({"choices": [{"text": "a", "token_ids": [token]}]}).encode()
    with pytest.raises(ServerError, match="no completion"):
        Hostile(OK, b"data: " + line + b"\n\n").ask("complete")


def test_an_unexpected_error_is_named():
    async def chunks():
        yield Chunk(text="mf(50);")

    tokens = Mock(of_text=Mock(side_effect=TypeError("no text")))
    stream = Stream(chunks(), tokens=tokens, ends=None, has_grammar=False, notify=lambda: None)
    asyncio.run(stream.read())
    assert stream.end is StreamEnd.FAILED
    assert stream.failure.message == "the stream could not be read: TypeError('no text')"


@pytest.mark.parametrize("what", ["models", "complete"])
def test_whatever_a_server_answers_is_understood_or_one_of_our_errors(what):
    good = json.dumps(MODELS if what == "models" else CHOICE)
    for seed in range(60):
        rng = random.Random(f"{what} {seed}")
        text = damaged_json(rng, good).encode("utf-8", "surrogatepass")
        answer = OK + (text if what == "models" else b"data: " + text + b"\n\n" + event(LAST))
        answer = damaged_bytes(rng, answer) if rng.random() < 0.3 else answer
        with contextlib.suppress(ServerError):
            Hostile(answer).ask(what)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_whatever_a_server_answers_a_probe_it_is_understood_or_one_of_our_errors(dialect):
    for seed in range(30):
        rng = random.Random(f"{dialect} {seed}")
        answer = OK + damaged_json(rng, json.dumps(PROBED)).encode("utf-8", "surrogatepass")
        with contextlib.suppress(ServerError, PlannerError):
            Hostile(answer).ask("probe", dialect=DIALECTS[dialect], has_raw_prompts=rng.random() < 0.5)
