# SPDX-License-Identifier: Apache-2.0
"""Pacers by name."""

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.pacer import PipelineLoad
from llm_planner.scheduling.pipeline.pacers import PACERS, make_pacer

TIMES = PipelineTimes(compute_base_s=0.001, compute_per_token_s=0.001)


def test_the_static_one_gives_everybody_into_the_first_and_the_others_divide():
    load = PipelineLoad(num_decodes=8, num_ready=8)
    shares = {name: make_pacer(name, 2, 64, TIMES).next(load, 0) for name in PACERS}
    assert shares.pop("static").token_budget == 64
    assert {share.token_budget for share in shares.values()} == {4}


@pytest.mark.parametrize("name", sorted(PACERS))
def test_nobody_urgent_is_held_back(name):
    load = PipelineLoad(num_decodes=8, num_ready=8, num_urgent_ready=7)
    share = make_pacer(name, 2, 64, TIMES).next(load, 0)
    assert share.token_budget >= 7
    assert share.num_decodes is None or share.num_decodes >= 7


def test_a_name_that_is_none():
    with pytest.raises(PlannerError, match="balanced") as error:
        make_pacer("best", 2, 64, TIMES)
    assert error.value.code is ErrorCode.INVALID_CONFIG
