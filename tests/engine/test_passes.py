# SPDX-License-Identifier: Apache-2.0
"""All chunks of a step are computed in one pass, and each as if there were no others."""

import pytest

from llm_planner.core.step import SchedulerOutput
from llm_planner.engine import model_runner
from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import PROMPT, decode, save_model, sequence

LENGTHS = (20, 77, 33, 2, 50)


@pytest.fixture(scope="module", params=["llama", "gemma2", "mistral"])
def model(request, tmp_path_factory):
    return save_model(tmp_path_factory.mktemp(request.param), request.param)


def first_tokens(model, *steps):
    """Returns the first two tokens of each sequence; ``steps`` say how many tokens each is given, step by step."""
    waiting = {f"s{i}": sequence(f"s{i}", prompt=(*PROMPT, *PROMPT)[i : i + n]) for i, n in enumerate(LENGTHS)}
    tokens = {name: [] for name in waiting}
    backend = TorchBackend(model, num_kv_blocks=128, dtype="float32")
    for counts in steps:
        named = {f"s{i}": count for i, count in enumerate(counts) if count}
        new = tuple(waiting.pop(name) for name in named if name in waiting)
        output = backend.execute(SchedulerOutput(new=new, num_scheduled_tokens=named))
        assert not output.failed
        for name, ids in output.token_ids.items():
            tokens[name] += ids
    for name, ids in backend.execute(decode(*tokens)).token_ids.items():
        tokens[name] += ids
    backend.close()
    return tokens


def test_together_and_alone_they_are_followed_by_the_same(model):
    alone = first_tokens(model, *[[n if i == j else 0 for j, n in enumerate(LENGTHS)] for i in range(len(LENGTHS))])
    assert first_tokens(model, LENGTHS) == alone
    halves = [n // 2 for n in LENGTHS], [n - n // 2 for n in LENGTHS]
    assert first_tokens(model, *halves) == alone


def test_one_pass_computes_all_of_them_up_to_a_number_of_rows(model, monkeypatch):
    passes = []
    forward = model_runner.Model.forward

    def counted(self, token_ids, *arguments):
        passes.append(len(token_ids))
        return forward(self, token_ids, *arguments)

    monkeypatch.setattr(model_runner.Model, "forward", counted)
    expected = first_tokens(model, LENGTHS)
    assert passes == [sum(LENGTHS), len(LENGTHS)]
    passes.clear()
    monkeypatch.setattr(model_runner, "_MAX_PACKED_ROWS", 100)
    assert first_tokens(model, LENGTHS) == expected
    assert passes == [97, 85, len(LENGTHS)]


def test_the_last_layer_goes_on_with_the_tokens_that_are_looked_at(model, monkeypatch):
    rows = []
    mlp = model_runner.Model._mlp

    def counted(self, index, layer, x, *arguments):
        rows.append((index, len(x)))
        return mlp(self, index, layer, x, *arguments)

    monkeypatch.setattr(model_runner.Model, "_mlp", counted)
    first_tokens(model, (20, 10, 0, 0, 0), (0, 67, 0, 0, 0), (0, 0, 30, 0, 0))
    last = max(index for index, _ in rows)
    assert [n for index, n in rows if index == 0] == [30, 67, 30, 3]
    assert [n for index, n in rows if index == last] == [1, 1, 2]  # the third prompt goes on
