# SPDX-License-Identifier: Apache-2.0
"""A vLLM that does something else than our scheduler counts on does not start."""

from dataclasses import replace

import pytest

pytest.importorskip("vllm")

from llm_planner.backends.vllm import contract
from llm_planner.backends.vllm.probe import require_behaviour
from llm_planner.core.errors import ErrorCode, PlannerError


def names_all(roster, scheduler):
    return replace(roster, num_tokens={**dict.fromkeys(scheduler.requests, 1), **roster.num_tokens})


def names_none(roster, _scheduler):
    return replace(roster, num_tokens={})


def takes_more(roster, _scheduler):
    return replace(roster, num_tokens={name: 4 * count for name, count in roster.num_tokens.items()})


def test_the_vllm_that_is_here_passes(backend):
    require_behaviour(backend)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (names_all, "requests ran that were not named"),
        (names_none, "a request that was named wrote nothing"),
        (takes_more, "of a step of 1 token"),
    ],
)
def test_what_differs_is_named(backend, monkeypatch, change, named):
    scheduler = backend._scheduler
    plan = scheduler.plan
    monkeypatch.setattr(scheduler, "plan", lambda roster: plan(change(roster, scheduler)))
    with pytest.raises(PlannerError, match=named) as caught:
        require_behaviour(backend)
    assert caught.value.code is ErrorCode.VERSION_MISMATCH


def test_an_attribute_that_was_renamed_is_named(backend, monkeypatch):
    monkeypatch.setitem(contract.ATTRIBUTES, "request", ("num_computed_tokens", "num_cached"))
    with pytest.raises(PlannerError, match=r"request\.num_cached is gone"):
        require_behaviour(backend)
