# SPDX-License-Identifier: Apache-2.0
"""The transitions of a generation: allowed ones happen, all others raise."""

import pytest

from llm_planner.scheduling.generation import Generation, GenerationState
from tests.scheduling.builders import make_generation

MOVES = {
    "admit": Generation.admit,
    "suspend": Generation.suspend,
    "resume": Generation.resume,
    "preempt": Generation.preempt,
    "finish": Generation.finish,
}
ALLOWED = {
    GenerationState.WAITING: {"admit", "finish"},
    GenerationState.RUNNING: {"suspend", "preempt", "finish"},
    GenerationState.SUSPENDED: {"resume", "preempt", "finish"},
    GenerationState.FINISHED: set(),
}
PATHS = {
    GenerationState.WAITING: [],
    GenerationState.RUNNING: ["admit"],
    GenerationState.SUSPENDED: ["admit", "suspend"],
    GenerationState.FINISHED: ["finish"],
}


@pytest.mark.parametrize("state", list(GenerationState))
@pytest.mark.parametrize("move", list(MOVES))
def test_every_move_from_every_state(state, move):
    generation = make_generation()
    for step in PATHS[state]:
        MOVES[step](generation)
    assert generation.state is state
    if move in ALLOWED[state]:
        MOVES[move](generation)
        assert generation.state is not state
    else:
        with pytest.raises(ValueError, match="cannot go from"):
            MOVES[move](generation)
        assert generation.state is state


def test_an_offloaded_one_cannot_resume():
    generation = make_generation()
    generation.admit()
    generation.suspend()
    generation.is_offloaded = True
    with pytest.raises(ValueError, match="offloaded"):
        generation.resume()


def test_preemption_loses_the_kv_and_keeps_the_tokens():
    generation = make_generation(num_prompt_tokens=20, num_cached_tokens=8)
    assert generation.num_uncomputed_tokens == 12
    generation.admit()
    generation.num_computed_tokens, generation.output_token_ids = 22, [1, 2, 3]
    assert generation.num_uncomputed_tokens == 1
    generation.preempt()
    assert generation.num_uncomputed_tokens == 15
    assert generation.admit().output_token_ids == (1, 2, 3)


@pytest.mark.parametrize(("num_computed_tokens", "num_draft_tokens"), [(10, 3), (4, 0)])
def test_drafts_go_with_kv_that_an_engine_lost(num_computed_tokens, num_draft_tokens):
    generation = make_generation()
    generation.admit()
    generation.num_computed_tokens, generation.num_draft_tokens = 10, 3
    generation.recount(num_computed_tokens)
    assert generation.num_draft_tokens == num_draft_tokens
