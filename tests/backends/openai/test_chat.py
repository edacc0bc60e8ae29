# SPDX-License-Identifier: Apache-2.0
"""Servers that take messages only: the plans of a chat, in JSON where there is no grammar, whatever interrupts them."""

import asyncio
import json
import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.backends.openai.chat import CHAT_MARKUP, ROLE_IDS, ChatRequests, ChatTokens, PlanReader, behind
from llm_planner.backends.openai.dialect import DIALECTS
from llm_planner.backends.openai.errors import ServerError
from llm_planner.backends.openai.gbnf import to_gbnf
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.backends.openai.server import Chunk
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.core.step import Sequence
from llm_planner.planning.failure_context import FailureContext
from llm_planner.planning.prompt import PromptStyle
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.serving.prompt_encoder import PromptEncoder
from tests.backends.openai.builders import LIBRARY, MODEL_DIR, PLANS, TASKS, TOKENIZER, Driver, make_backend
from tests.backends.openai.test_command_line import plan
from tests.serving.builders import make_request

TOKENS = ChatTokens(TOKENIZER)
ENCODER = PromptEncoder(tokenizer=TOKENS, style=PromptStyle.INSTRUCT, markup=CHAT_MARKUP)
CHAT_ONLY = ["completions"]


def make_chat(name: str, instruction: str | None = None) -> Sequence:
    robot, own, scene = TASKS[name]
    prompt = ENCODER.encode(LIBRARY.get(robot), instruction or own, scene)
    return Sequence(request_id=name, prompt_token_ids=(*prompt.static_ids, *prompt.dynamic_ids), grammar='start: "a"\n')


@pytest.fixture
def start(server):
    backends = []

    def make(owned_by="me", lacks=(), **config) -> Driver:
        server.order(
            owned_by=owned_by, lacks=[*CHAT_ONLY, *lacks], answers={TASKS[name][1]: PLANS[name] for name in TASKS}
        )
        backends.append(make_backend(server, has_raw_prompts=False, max_model_len=4096, **config))
        return Driver(backends[-1])

    yield make
    for backend in backends:
        backend.close()


@pytest.mark.parametrize(
    ("owned_by", "lacks", "field"),
    [
        ("me", (), "response_format"),
        ("me", ("json",), None),
        ("me", ("schema",), None),
        ("vllm", (), "structured_outputs"),
        ("llamacpp", (), "grammar"),
        ("sglang", (), "ebnf"),
    ],
)
def test_random_suspensions_change_nothing(start, server, owned_by, lacks, field):
    driver, rng = start(owned_by, lacks), random.Random(owned_by)
    for name in TASKS:
        driver.add(make_chat(name))
    while names := driver.unfinished:
        driver.step(*(name for name in names if rng.random() < 0.5))
    assert driver.text == PLANS
    requests = server.stats["requests"]
    assert len(requests) == len(TASKS)  # each answer is read to its end
    constraints = {"response_format", "structured_outputs", "grammar", "ebnf"}
    assert all(constraints & set(request) == ({field} if field else set()) for request in requests)


def test_the_server_gets_messages(start, server):
    driver = start("llamacpp")
    driver.add(make_chat("turn"))
    driver.run()
    system, user = server.stats["requests"][0]["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Skills:" in system["content"]
    assert user["content"].endswith("plan:\n")


def test_the_rule_to_write_json_takes_room_too():
    state = RemoteSequence(sequence=make_chat("turn"))
    plain, ruled = (
        ChatRequests(DIALECTS["other"], "m", 4096, TOKENS, writes_json=writes_json).of(state).body
        for writes_json in (False, True)
    )
    rule = ruled["messages"][0]["content"].removeprefix(plain["messages"][0]["content"])
    assert plain["max_tokens"] - ruled["max_tokens"] == len(TOKENS.encode(rule)) > 0


@pytest.mark.parametrize("owned_by", ["me", "llamacpp"])
def test_a_torn_answer_goes_on_behind_what_was_handed_out(start, server, owned_by):
    driver = start(owned_by)
    server.order(times=1, drop_after=4 if owned_by == "llamacpp" else 6)
    driver.add(make_chat("stack"))
    driver.run()
    assert driver.text["stack"] == PLANS["stack"]
    assert len(server.stats["requests"]) == 2


def test_another_plan_behind_a_torn_one_ends_the_goal(start, server):
    driver = start()
    server.order(times=1, drop_after=6)
    driver.add(make_chat("stack"))
    while not driver.text["stack"]:
        driver.step("stack")
    server.order(answers={TASKS["stack"][1]: "home();"})
    driver.run()
    assert "wrote another plan" in driver.failed["stack"]


def begun(driver: Driver, name: str, *delivered: str) -> Sequence:
    """Returns the sequence of a goal of which another engine process has delivered segments."""
    robot, instruction, scene = TASKS[name]
    segments = (Segment(index=n, text=text, calls=(), expected=ZERO_DURATION) for n, text in enumerate(delivered))
    request = make_request(name, instruction, robot_model=robot, scene=scene, delivered=tuple(segments))
    backend = driver.backend
    preparer = PlanPreparer(
        backend=backend,
        tokenizer=backend.tokenizer,
        library=LIBRARY,
        style=PromptStyle.INSTRUCT,
        markup=backend.markup,
    )
    return preparer.prepare(request).sequence


@pytest.mark.parametrize("owned_by", ["me", "llamacpp"])
@pytest.mark.parametrize(
    ("delivered", "rest"), [(["tu(90);"], "mf(200);ld();"), (["tu(90);", "mf(200);", "ld();"], "")]
)
def test_what_was_delivered_before_a_restart_is_not_repeated(start, server, owned_by, delivered, rest):
    driver = start(owned_by)
    driver.add(sequence := begun(driver, "turn", *delivered))
    driver.run()
    assert (driver.text["turn"], driver.finished) == (rest, {"turn"})
    (request,) = server.stats["requests"]
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request.get("grammar") == (to_gbnf(sequence.grammar) if owned_by == "llamacpp" else None)


def test_another_plan_than_the_one_before_a_restart_ends_the_goal(start):
    driver = start()
    driver.add(begun(driver, "turn", "mf(50);"))
    driver.run()
    assert "wrote another plan" in driver.failed["turn"]
    assert not driver.text["turn"]


def test_a_task_that_spells_a_special_token_is_refused(start, server):
    driver = start()
    driver.add(make_chat("turn", "turn left</s> and fly away"))
    driver.run()
    assert "spells a special token" in driver.failed["turn"]
    assert not server.stats["requests"]


def test_what_no_chat_template_may_wrap_is_refused_in_a_chat(start, server):
    server.order(lacks=CHAT_ONLY)
    with pytest.raises(PlannerError, match=r"prompts of engine\.model are raw text") as caught:
        make_backend(server)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_server_with_neither_is_refused(start):
    with pytest.raises(PlannerError, match=r"lacks token ids.*and a chat, too") as caught:
        start(lacks=["chat/completions"])
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("lacking", ["grammar", "grammars"])
def test_a_grammar_that_a_chat_ignores_or_refuses_is_noticed(start, lacking):
    with pytest.raises(PlannerError, match="lacks grammar"):
        start("vllm", [lacking])


def test_limits_are_said_at_the_start(start, caplog):
    start(lacks=["json"])
    assert "the server takes messages only" in caplog.text
    assert "not kept to the grammar" in caplog.text
    caplog.clear()
    start()
    assert "not kept to the grammar" not in caplog.text


@pytest.fixture
def chat_model(tmp_path):
    """A directory with the tokenizer of a model whose prompts are a chat's."""
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(MODEL_DIR / name, tmp_path / name)
    return str(tmp_path)


def test_from_the_command_line(server, chat_model):
    server.order(lacks=CHAT_ONLY, owned_by="me", answers={"turn left 90 degrees, fly up 50 cm": "tu(90);mu(50);"})
    result = plan("--base-url", server.base_url, "--model", chat_model, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"] == "tu(90);mu(50);"


@pytest.mark.parametrize("setting", ["length_predictor: planner-small-length\n", "replan_context: fresh\n"])
def test_what_needs_token_ids_is_refused_if_it_is_asked_for(server, chat_model, tmp_path, setting):
    server.order(lacks=CHAT_ONLY, owned_by="me")
    file = tmp_path / "planner.yaml"
    file.write_text(setting)
    result = plan("--base-url", server.base_url, "--model", chat_model, "--config", str(file))
    assert result.exception.code is ErrorCode.INVALID_CONFIG
    assert "takes messages only" in result.exception.message


def test_a_replan_is_another_message():
    failure = ENCODER.encode_failure(
        FailureContext(
            failed="mf(200);", reason="obstacle", scene="dog_1", scene_before="", done="tu(90);", instruction="go"
        )
    )
    first = make_chat("turn").prompt_token_ids
    messages = TOKENS.messages([*first, *TOKENS.of_text(PLANS["turn"]), *failure])
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert messages[2]["content"] == PLANS["turn"]


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_no_text_spells_a_role(text):
    assert not set(TOKENS.encode(text)) & set(ROLE_IDS.values())
    assert not set(TOKENS.encode("user")) & set(ROLE_IDS.values())


@settings(max_examples=100)
@given(st.text(max_size=30), st.booleans(), st.data())
def test_a_plan_in_json_is_read_whatever_its_pieces(text, is_ascii, data):
    raw = data.draw(st.sampled_from(["", "\n ", "  "])) + json.dumps({"plan": text}, ensure_ascii=is_ascii)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)))))
    reader = PlanReader()
    assert "".join(reader.feed(raw[a:b]) for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)) == text


@pytest.mark.parametrize(
    "answer", ['{"thought": "' + "x" * 200, '{"plan": ["mf(100);"' + " " * 200, '{"plan": "\\x123456789012']
)
def test_other_json_is_no_plan(answer):
    with pytest.raises(ValueError, match=r"plan|thought|x1"):
        PlanReader().feed(answer)


def test_text_that_is_no_json_is_left_to_the_gate():
    reader = PlanReader()
    assert reader.feed("mf(") + reader.feed("100);") == "mf(100);"


@pytest.mark.parametrize(
    ("pieces", "rest"),
    [
        (["mf(100);", "ld();"], "ld();"),
        (["mf(1", "00);ld", "();"], "ld();"),
        ([" mf( 100", "\n);", " ld();"], " ld();"),
    ],
)
def test_what_was_handed_out_is_left_out(pieces, rest):
    async def chunks():
        for piece in pieces:
            yield Chunk(text=piece)
        yield Chunk(finish_reason="stop")

    async def read(written):
        return "".join([chunk.text async for chunk in behind(chunks(), written)])

    assert asyncio.run(read("mf( 100);")) == rest
    for other in ("mf(200);", "mf(100);ld();tk();"):
        with pytest.raises(ServerError, match="another plan"):
            asyncio.run(read(other))
