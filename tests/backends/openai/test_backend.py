# SPDX-License-Identifier: Apache-2.0
"""The backend against a server process: the plans of an uninterrupted run, and nothing asked for that is withheld."""

import random

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput
from llm_planner.engine.backend import TorchBackend
from tests.backends.openai.builders import MODEL_DIR, PLANS, TASKS, TOKENIZER, Driver, make_backend, make_sequence


@pytest.fixture
def driver(server):
    backend = make_backend(server)
    yield Driver(backend)
    backend.close()


def test_the_torch_backend_makes_these_plans():
    backend = TorchBackend(MODEL_DIR, num_kv_blocks=256, num_threads=1)
    driver = Driver(backend)
    for name in TASKS:
        driver.add(make_sequence(name))
    driver.run()
    backend.close()
    assert driver.text == PLANS


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_random_suspensions_change_nothing(engine_server, dialect):
    engine_server.order(forget=True)
    driver, rng = Driver(make_backend(engine_server, server=dialect)), random.Random(dialect)
    for name in TASKS:
        driver.add(make_sequence(name))
    while names := driver.unfinished:
        driver.step(*(name for name in names if rng.random() < 0.5))
    driver.backend.close()
    assert driver.text == PLANS
    requests = engine_server.stats["requests"]
    assert len(requests) > len(TASKS)
    assert all({"structured_outputs", "grammar", "ebnf"} & set(request) for request in requests)


def test_together_and_uninterrupted(driver, server):
    for name in TASKS:
        driver.add(make_sequence(name))
    driver.run()
    assert driver.text == PLANS
    assert len(server.stats["requests"]) == len(TASKS)


def test_what_is_not_scheduled_leaves_the_server(driver, server):
    server.order(token_s=0.02)
    driver.add(make_sequence("square"))
    while ";" not in driver.text["square"]:
        driver.step("square")
    driver.step()
    server.wait_idle()
    driver.run()
    requests = server.stats["requests"]
    assert len(requests) == 2
    num_prompt_tokens = len(requests[0]["prompt"])
    continued = TOKENIZER.encode(driver.text["square"])[: len(requests[1]["prompt"]) - num_prompt_tokens]
    assert requests[1]["prompt"] == [*requests[0]["prompt"], *continued]


def test_a_server_is_told_when_there_are_no_more_steps(driver, server):
    """All goals are suspended: the backend is not called, and the server must not write on."""
    server.order(token_s=0.1)
    driver.add(make_sequence("stack"))
    while ";" not in driver.text["stack"]:
        driver.step("stack")
    server.wait_idle()
    assert server.stats["aborted"] == 1
    server.order(token_s=0.0)
    driver.run()
    assert driver.text["stack"] == PLANS["stack"]
    assert len(server.stats["requests"]) == 2


def test_a_statement_that_was_begun_is_completed_before_it_leaves(driver, server):
    server.order(token_s=0.02)
    driver.add(make_sequence("stack"))
    while not driver.text["stack"].endswith("("):
        driver.step("stack")
    driver.step()
    server.wait_idle()
    assert server.stats["aborted"] == 1
    driver.run()
    assert driver.text["stack"] == PLANS["stack"]
    assert all("structured_outputs" in request for request in server.stats["requests"])


def test_released_in_its_midst(driver, server):
    server.order(token_s=0.02)
    driver.add(make_sequence("square"))
    driver.add(make_sequence("turn"))
    while not (driver.text["square"] and driver.text["turn"]):
        driver.step("square", "turn")
    driver.backend.execute(SchedulerOutput(release=("square", "unknown")))
    driver.failed["square"] = "released"
    driver.run("turn")
    server.wait_idle()
    assert server.stats["aborted"] == 1


def test_kv_is_not_ours_to_change(driver):
    assert not driver.backend.info.can_evict
    with pytest.raises(PlannerError) as caught:
        driver.backend.execute(SchedulerOutput(evict={"a": 3}))
    assert caught.value.code is ErrorCode.EVICTION_UNSUPPORTED


def test_without_a_grammar_it_may_be_cut_anywhere(server):
    driver, rng = Driver(make_backend(server, server="other")), random.Random(0)
    driver.add(make_sequence("turn"))
    while driver.unfinished:
        driver.step(*(["turn"] if rng.random() < 0.5 else []))
    driver.backend.close()
    assert "(" in driver.text["turn"]
    assert not any("structured_outputs" in request for request in server.stats["requests"])


def test_limits_are_said_at_the_start(server, caplog):
    make_backend(server, server="other").close()
    assert "cannot be evicted" in caplog.text
    assert "not kept to the grammar" in caplog.text


def test_closing_twice(server):
    backend = make_backend(server)
    backend.close()
    backend.close()
