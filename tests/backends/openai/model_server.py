# SPDX-License-Identifier: Apache-2.0
"""A small OpenAI-compatible server on loopback, and faults that a test can order.

    python -m tests.backends.openai.model_server [--engine] [--api-key KEY] [--port 0]

With ``--engine`` our torch engine is behind it; without, it writes the plans of ``builders.PLANS``.

It prints its port. ``POST /faults`` orders faults for the completions to come, what to answer to tasks by their words
(``answers``), whose server it is (``owned_by``) and what it cannot do (``lacks``); ``GET /stats`` tells what was asked.
What the planner asks at its start, to see what the server can do, is no completion to faults and counts.
"""

import argparse
import codecs
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice

from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark

from llm_planner.backends.openai import probe
from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence, StepOutput
from tests.backends.openai.builders import MODEL_DIR, PLANS, TOKENIZER, make_sequence

NO_FAULTS = {
    "drop_after": None,
    "garbage_after": None,
    "status": None,
    "times": 0,
    "token_s": 0.0,
    "first_token_s": 0.0,
}
PROBE = TOKENIZER.encode(probe.TEXT)[:8]
LLG = LLTokenizer(TOKENIZER.json_text, n_vocab=TOKENIZER.vocab_size, eos_token=sorted(TOKENIZER.eos_token_ids))


class RefusedError(Exception):
    """Answered with a status before anything is streamed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ScriptedEngine:
    """Writes the plan of a task behind its prompt and whatever of the plan follows that already."""

    max_model_len = 4096

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self._plans = {make_sequence(n).prompt_token_ids: p for n, p in PLANS.items()}

    def open(self, prompt: list[int], sampling: SamplingParams, grammar: str | None) -> Iterator[int]:
        """Returns the tokens of a completion, ended by the model."""
        if grammar is not None:
            is_bad, message = LLMatcher.validate_grammar_with_warnings(LLMatcher.grammar_from_lark(grammar))
            if is_bad:
                raise RefusedError(400, str(message))
        for known, plan in self._plans.items():
            if tuple(prompt[: len(known)]) == known:
                written = b"".join(map(TOKENIZER.token_bytes, prompt[len(known) :])).decode()
                if "\nfailed: " in written:  # goes on with what failed
                    failure_context, _, written = written.rpartition("\nfailed: ")[2].partition("plan:\n")
                    written = plan.partition(failure_context.split()[0])[0] + written
                return iter(TOKENIZER.encode(plan.removeprefix(written)))
        text = b"".join(map(TOKENIZER.token_bytes, prompt)).decode()
        request, _, written = text.rpartition("plan:\n")
        task = request.rpartition("\ntask:")[2].partition("\n")[0]
        for words, plan in self.answers.items():
            if _letters(words) == _letters(task):
                return iter(TOKENIZER.encode(plan.removeprefix(written)))
        return iter(TOKENIZER.encode("yes"))


def _letters(text: str) -> str:
    """Returns a text as it can be compared: the bundled tokenizer has no token for a space between words."""
    return "".join(text.lower().split())


class TorchEngine:
    """Runs each completion token by token; completions at the same time take turns."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}  # it has its own
        from llm_planner.engine.backend import TorchBackend

        self._backend = TorchBackend(MODEL_DIR, num_kv_blocks=512, num_threads=1)
        self.max_model_len = self._backend.info.max_model_len
        self._lock = threading.Lock()
        self._ids = map(str, count())

    def open(self, prompt: list[int], sampling: SamplingParams, grammar: str | None) -> Iterator[int]:
        name = next(self._ids)
        sequence = Sequence(request_id=name, prompt_token_ids=tuple(prompt), sampling=sampling, grammar=grammar)
        output = self._run(SchedulerOutput(new=(sequence,), num_scheduled_tokens={name: len(prompt)}))
        if name in output.failed:
            raise RefusedError(400, output.failed[name])
        return self._tokens(name, output)

    def _tokens(self, name: str, output: StepOutput) -> Iterator[int]:
        try:
            while True:
                yield from output.token_ids[name]
                if name in output.finished:
                    return
                output = self._run(SchedulerOutput(num_scheduled_tokens={name: 1}))
        finally:
            self._run(SchedulerOutput(release=(name,)))

    def _run(self, scheduled: SchedulerOutput) -> StepOutput:
        with self._lock:
            return self._backend.execute(scheduled)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, engine: ScriptedEngine | TorchEngine, api_key: str | None) -> None:
        super().__init__(address, Handler)
        self.engine = engine
        self.api_key = api_key
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.faults = dict(NO_FAULTS)
        self.engine.answers = {}
        self.owned_by, self.lacks = "vllm", []
        self.requests: list[dict] = []
        self.running = 0  # as its gauge tells
        self.active = self.peak = self.aborted = 0

    def take_fault(self) -> dict:
        """Returns what goes wrong with one completion, and counts it."""
        with self.lock:
            slow = {name: self.faults[name] for name in ("token_s", "first_token_s")}
            if self.faults["times"] <= 0:
                return NO_FAULTS | slow
            self.faults["times"] -= 1
            return dict(self.faults)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/stats":
            server = self.server
            self._json(200, {n: getattr(server, n) for n in ("active", "peak", "aborted", "requests")})
        elif self.path in {"/metrics", "/slots"} and "gauge" not in self.server.lacks:
            slots = [{"is_processing": n < self.server.running} for n in range(8)]
            metrics = (
                f'# HELP vllm:num_requests_running x\nvllm:num_requests_running{{engine="0"}} {self.server.running}.0\n'
            )
            self._send(200, json.dumps(slots) if self.path == "/slots" else metrics)
        elif self.path != "/v1/models":
            self._json(404, {"error": {"message": f"no {self.path}"}})
        elif "models" in self.server.lacks:
            self._json(503, {"error": {"message": "Loading model", "code": 503}})
        elif self._is_allowed():
            card = {"id": MODEL_DIR.name, "object": "model", "owned_by": self.server.owned_by}
            self._json(200, {"object": "list", "data": [card | {"max_model_len": self.server.engine.max_model_len}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/faults":
            self._take_orders(body)
        elif self.path == "/detokenize":
            ids = [token_id + ("vocabulary" in self.server.lacks) for token_id in body["tokens"]]
            self._json(200, {"content": b"".join(map(TOKENIZER.token_bytes, ids)).decode(errors="replace")})
        elif self.path.removeprefix("/v1/") in self.server.lacks or not self.path.endswith("/completions"):
            self._json(404, {"error": {"message": f"no {self.path}"}})
        elif self._is_allowed():
            self._take_messages(body) if "messages" in body else self._take_prompt(body)

    def _take_orders(self, body: dict) -> None:
        if body.pop("forget", False):
            self.server.forget()
        self.server.engine.answers = body.pop("answers", self.server.engine.answers)
        self.server.owned_by = body.pop("owned_by", self.server.owned_by)
        self.server.lacks = body.pop("lacks", self.server.lacks)
        self.server.faults |= body
        self._json(200, {})

    def _take_prompt(self, body: dict) -> None:
        if "model" in self.server.lacks:
            self._json(503, {"error": {"message": "Loading model", "code": 503}})
        elif "token ids" in self.server.lacks:
            self._json(422, {"detail": "prompt must be a string"})
        elif body["prompt"][: len(PROBE)] != PROBE:
            self._complete(body)
        elif body.get("stream"):
            self._stream_probe()
        else:
            self._answer_probe(body)

    def _take_messages(self, body: dict) -> None:
        if "json" in self.server.lacks and "response_format" in body:
            self._json(400, {"error": {"message": "response_format is not supported"}})
        elif "grammars" in self.server.lacks and _grammar(body) is not None:
            self._json(400, {"error": {"message": "this grammar backend reads no grammars"}})
        elif body["messages"][0]["content"] == probe.TEXT:
            self._answer_chat_probe(body)
        else:
            messages = body["messages"]
            if messages[-1]["role"] == "assistant":  # it is not gone on with: a chat opens another answer
                messages = messages[:-1]
            self._complete(body | {"prompt": TOKENIZER.encode("".join(m["content"] for m in messages))})

    def _is_allowed(self) -> bool:
        if self.server.api_key in {None, self.headers.get("Authorization", "").removeprefix("Bearer ")}:
            return True
        self._json(401, {"error": {"message": "Unauthorized"}})
        return False

    def _answer_probe(self, body: dict) -> None:
        """Answers a request of the planner's start in one piece, as the server's documentation says."""
        lacks, num_prompt, text = self.server.lacks, len(body["prompt"]), "yes"
        grammar = _grammar(body)
        if grammar is not None and "grammars" in lacks:
            self._json(400, {"error": {"message": "this grammar backend reads no grammars"}})
            return
        if grammar is not None and "grammar" not in lacks:
            if is_bad := LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(grammar)):
                self._json(400, {"error": {"message": is_bad}})
                return
            text = LLMatcher(LLG, LLMatcher.grammar_from_lark(grammar)).compute_ff_bytes().decode()
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        if body.get("return_token_ids"):
            choice["token_ids"] = [i + ("vocabulary" in lacks) for i in TOKENIZER.encode(text)]
        usage = {"prompt_tokens": num_prompt if "one prompt" not in lacks else 1}
        if "usage" not in lacks:
            usage["prompt_tokens_details"] = {"cached_tokens": 0 if "prefix" in lacks else num_prompt - 12}
        self._json(200, {"choices": [choice], "usage": usage})

    def _answer_chat_probe(self, body: dict) -> None:
        is_json = "response_format" in body and "schema" not in self.server.lacks
        has_grammar = _grammar(body) is not None and "grammar" not in self.server.lacks
        text = json.dumps({"plan": "yes"}) if is_json else probe.WORD if has_grammar else "I write zq7x."
        self._json(200, {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})

    def _stream_probe(self) -> None:
        """Writes until the client leaves, or, lacking that, on and on."""
        self.server.running += 1
        self._begin_stream()
        try:
            while True:
                self._event({"choices": [{"index": 0, "text": "yes", "finish_reason": None}]})
                time.sleep(0.01)
        except (BrokenPipeError, ConnectionResetError):
            self.server.running -= "cancel" not in self.server.lacks

    def _json(self, status: int, value: dict) -> None:
        self._send(status, json.dumps(value))

    def _send(self, status: int, text: str) -> None:
        raw = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _complete(self, body: dict) -> None:
        server = self.server
        with server.lock:
            server.requests.append({name: body[name] for name in body if name not in {"stream", "model"}})
            server.active += 1
            server.peak = max(server.peak, server.active)
        try:
            self._stream(body, server.take_fault())
        except RefusedError as error:
            self._json(error.status, {"error": {"message": str(error), "code": error.status}})
        except (BrokenPipeError, ConnectionResetError):
            server.aborted += 1
            self.close_connection = True
        finally:
            with server.lock:
                server.active -= 1

    def _stream(self, body: dict, fault: dict) -> None:
        if fault["status"]:
            raise RefusedError(fault["status"], "ordered by a test")
        sampling = SamplingParams(temperature=body["temperature"], seed=body["seed"])
        time.sleep(fault["first_token_s"])
        tokens = self.server.engine.open(body["prompt"], sampling, _grammar(body))
        self._begin_stream()
        if "messages" in body:
            self._stream_chat(body, b"".join(map(TOKENIZER.token_bytes, tokens)).decode(), fault)
            return
        decoder = codecs.getincrementaldecoder("utf-8")()
        for number, token in enumerate(islice(tokens, body["max_tokens"])):
            if number == fault["drop_after"]:
                return
            if number == fault["garbage_after"]:
                self.wfile.write(b"data: {nonsense\n\n")
            time.sleep(fault["token_s"])
            choice = {"index": 0, "text": decoder.decode(TOKENIZER.token_bytes(token)), "finish_reason": None}
            if body.get("return_token_ids"):
                choice["token_ids"] = [token]
            self._event({"choices": [choice]})
        self._event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _stream_chat(self, body: dict, text: str, fault: dict) -> None:
        """Writes an answer in pieces of three characters, as JSON if that is asked for."""
        text = json.dumps({"plan": text}) if "response_format" in body else text
        self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        for number, start in enumerate(range(0, len(text), 3)):
            if number == fault["drop_after"]:
                return
            time.sleep(fault["token_s"])
            delta = {"content": text[start : start + 3]}
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _begin_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def _event(self, value: dict) -> None:
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())


def _grammar(body: dict) -> str | None:
    """Returns the grammar of a request, whichever server's field it came in."""
    if "structured_outputs" in body:
        return body["structured_outputs"]["grammar"]
    gbnf = body.get("grammar") or body.get("ebnf")
    return None if gbnf is None else gbnf_to_lark(gbnf)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--api-key")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    engine = TorchEngine() if options.engine else ScriptedEngine()
    server = Server(("127.0.0.1", options.port), engine, options.api_key)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
