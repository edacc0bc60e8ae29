# SPDX-License-Identifier: Apache-2.0
"""The real server of llama.cpp with the bundled model, where ``LLAMACPP_PYTHON`` names an interpreter that has it.

The environment of that interpreter is made with ``pip install xllamacpp gguf``: docs/openai.md.
"""

import json
import os
import random
import subprocess

import pytest

from llm_planner.backends.openai.probe import Probe
from llm_planner.core.errors import ErrorCode
from llm_planner.core.step import Sequence
from tests.backends.openai.builders import (
    MODEL_DIR,
    PLANS,
    TASKS,
    Driver,
    ServerProcess,
    make_backend,
    make_sequence,
)
from tests.backends.openai.conftest import ROOT
from tests.backends.openai.test_command_line import plan

PYTHON = os.environ.get("LLAMACPP_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="set LLAMACPP_PYTHON to an interpreter with xllamacpp and gguf")


@pytest.fixture(scope="module")
def llamacpp(tmp_path_factory):
    directory = tmp_path_factory.mktemp("llamacpp")
    command = [PYTHON, ROOT / "tests/backends/openai/llamacpp_server.py", MODEL_DIR, directory / "planner-small.gguf"]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    with process.stdout:
        address = process.stdout.readline().strip()
        assert address, (directory / "log").read_text()[-2_000:]
        yield ServerProcess(process, int(address.rpartition(":")[2]))
        process.kill()
        process.wait()


@pytest.fixture
def driver(llamacpp):
    backend = make_backend(llamacpp)
    yield Driver(backend)
    backend.close()


def test_it_makes_the_plans_of_our_engine(driver):
    for name in TASKS:
        driver.add(make_sequence(name))
    driver.run()
    assert driver.text == PLANS


def test_the_context_of_a_slot_is_what_a_goal_may_use(driver):
    assert driver.backend.info.max_model_len == 2048


def test_random_suspensions_change_nothing(driver):
    rng = random.Random(0)
    for name in TASKS:
        driver.add(make_sequence(name))
    while names := driver.unfinished:
        driver.step(*(name for name in names if rng.random() < 0.5))
    assert driver.text == PLANS


def test_the_grammar_is_kept_to(driver):
    only = 'start: "ld();" | "tk();"\n'
    driver.add(make_sequence("square", grammar=only))
    driver.run()
    assert driver.text["square"] in {"ld();", "tk();"}


def test_a_grammar_that_it_cannot_read_ends_its_own_goal(driver):
    driver.add(make_sequence("square", grammar='start: "a" undefined_rule\n'))
    driver.run()
    assert "answers 400" in driver.failed["square"]


def test_it_does_all_that_is_asked_at_the_start(llamacpp, caplog):
    caplog.set_level("INFO", logger="llm_planner.backends.openai.backend")
    make_backend(llamacpp).close()
    assert "token ids in answers: no; prefix reuse: 299 of 300 tokens; cancel: yes" in caplog.text


def test_its_chat_keeps_to_the_grammar_too(llamacpp, monkeypatch):
    async def refused(probe):
        return "it refuses a prompt of token ids"

    monkeypatch.setattr(Probe, "_refused_prompt", refused)
    driver = Driver(make_backend(llamacpp, has_raw_prompts=False))
    tokens, markup = driver.backend.tokenizer, driver.backend.markup
    prompt = [
        *tokens.encode(markup.before_static, allow_special=True),
        *tokens.encode("robot tello"),
        *tokens.encode(markup.before_dynamic, allow_special=True),
        *tokens.encode("task:land"),
        *tokens.encode(markup.after_dynamic, allow_special=True),
    ]
    driver.add(Sequence(request_id="a", prompt_token_ids=tuple(prompt), grammar='start: "ld();" | "tk();"\n'))
    driver.run()
    driver.backend.close()
    assert driver.text["a"] in {"ld();", "tk();"}


def test_from_the_command_line(llamacpp):
    result = plan("--base-url", llamacpp.base_url, "--json")
    assert result.exit_code == ErrorCode.NONE, result.output
    assert json.loads(result.stdout)["plan"] == "tu(90);mu(50);"
