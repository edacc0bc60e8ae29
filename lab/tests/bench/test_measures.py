# SPDX-License-Identifier: Apache-2.0
"""What measures save, computed from a profile: against sums by hand."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from llm_planner.prediction.profile import find_profile
from llm_planner_lab.bench.measures import MEASURES, Case, eviction, run_measures, seconds
from llm_planner_lab.cli.bench import app

PROFILE = find_profile("llama3-8b-rtx4090")
WEIGHTS_S = 16.1 / 1008
ALONE = Case(num_others=0, num_waiting=0, is_reserved=True, num_tokens=3)


def test_a_goal_alone_takes_half_a_step_its_prefill_and_its_steps():
    decode, prefill = PROFILE.decode, PROFILE.prefill
    prompt = ALONE.prefix_tokens + ALONE.scene_tokens + ALONE.other_tokens
    step_s = decode.base_s.value + decode.per_kv_token_s.value * ALONE.kv_per_other
    steps_s = sum(decode.base_s.value + decode.per_kv_token_s.value * (prompt + n) for n in range(2))
    by_hand_s = 0.5 * step_s + prefill.b_s_per_token.value * prompt + prefill.c_s.value + steps_s
    assert seconds(PROFILE, ALONE, WEIGHTS_S) == pytest.approx(by_hand_s, rel=1e-3)


@pytest.mark.parametrize("name", MEASURES)
def test_no_measure_costs_a_goal_time_that_has_its_slot(name):
    case = Case(is_reserved=True)
    assert seconds(PROFILE, MEASURES[name](case), WEIGHTS_S) <= seconds(PROFILE, case, WEIGHTS_S)


def test_weights_that_are_read_in_no_time_gain_nothing_by_quantisation():
    case = replace(Case(), weight_share=0.25)
    assert seconds(PROFILE, case, 0.0) == seconds(PROFILE, Case(), 0.0)


def test_what_is_saved_adds_up():
    document = run_measures(PROFILE, 16.1, 1008.0)
    saved_s = sum(row["saved_s"] for row in document["rows"])
    assert document["plain_s"] - saved_s == pytest.approx(document["rows"][-1]["together_s"])


def test_eviction_pays_with_long_contexts_in_large_batches():
    left = {(row["context"], row["batch"]): row["evicted_step_s"] / row["step_s"] for row in eviction(PROFILE)}
    assert left[1_000, 1] > 0.99
    assert left[32_000, 64] < 0.3


def test_the_command_says_it(tmp_path):
    result = CliRunner().invoke(app, ["measures", "--page", str(tmp_path / "measures.md")])
    assert result.exit_code == 0, result.output
    assert "a reserved slot" in (tmp_path / "measures.md").read_text()
