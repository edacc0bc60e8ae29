# SPDX-License-Identifier: Apache-2.0
"""A sequence that lost its KV goes on exactly where it was: same tokens, same grammar, same random numbers."""

from dataclasses import replace

import pytest

from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from tests.engine.builders import generate

GRAMMAR = 'start: ("mf(" /[0-9]{1,3}/ ");" | "g(" /[a-z_]+/ ");")+\n'
KINDS = {
    "greedy": Sequence(request_id="a", prompt_token_ids=tuple(range(40, 60))),
    "grammar": Sequence(request_id="a", prompt_token_ids=tuple(range(60, 80)), grammar=GRAMMAR),
    "sampled": Sequence(
        request_id="a",
        prompt_token_ids=tuple(range(80, 90)),
        grammar=GRAMMAR,
        sampling=SamplingParams(temperature=1.5, seed=4),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_kept", [1, 5])
@pytest.mark.parametrize("chunk", [4, 1000])
def test_preempted_and_recomputed(backend: TorchBackend, kind: str, num_kept: int, chunk: int):
    sequence = KINDS[kind]
    expected = tuple(generate(backend, sequence, max_tokens=16)["a"])
    assert len(expected) > num_kept
    again = replace(sequence, output_token_ids=expected[:num_kept])
    left = len(sequence.prompt_token_ids) + num_kept
    tokens, first, step = list(expected[:num_kept]), True, None
    while len(tokens) < len(expected):
        num_tokens = min(chunk, left) or 1
        left -= num_tokens if left else 0
        step = backend.execute(SchedulerOutput(new=(again,) if first else (), num_scheduled_tokens={"a": num_tokens}))
        assert not step.failed
        tokens += step.token_ids.get("a", ())
        first = False
    assert tuple(tokens) == expected
    backend.execute(SchedulerOutput(release=("a",)))
