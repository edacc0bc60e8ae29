# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from llm_planner_lab.bench.pipeline import online
from llm_planner_lab.bench.pipeline.online import Targets, draw_online, run_online, satisfaction
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.bench.pipeline.sweeps import MOST_TOKENS, skewed_lengths
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, find_pipeline
from llm_planner_lab.simulation.pipeline.request import PipelineRequest, Sequence

TARGETS = Targets(ttft_s=5.0, itl_s=0.2)


def served(arrival_s, token_times_s):
    sequence = Sequence(
        PipelineRequest(request_id=0, arrival_s=arrival_s, num_prompt_tokens=8, num_output_tokens=len(token_times_s))
    )
    sequence.token_times_s = token_times_s
    return sequence


def test_arrivals_and_lengths_are_those_of_the_paper():
    requests = draw_online(random.Random(1), num_requests=4000)
    assert requests[-1].arrival_s / 4000 == pytest.approx(10.0, rel=0.05)
    prompts = [request.num_prompt_tokens for request in requests]
    assert 512 <= min(prompts) < 520
    assert 2040 < max(prompts) <= 2048
    assert sum(prompts) / 4000 == pytest.approx(1280, rel=0.03)


def test_a_scheduler_knows_what_a_client_asks_for_and_not_how_many_tokens_come():
    requests = draw_online(random.Random(1))
    assert {request.max_output_tokens for request in requests} == {1024}
    assert min(request.num_output_tokens for request in requests) < 1024
    skewed = skewed_lengths(Workload(64, 256, 256), 0.5)
    assert {request.max_output_tokens for request in skewed} == {MOST_TOKENS}
    assert {request.max_output_tokens for request in skewed_lengths(Workload(64, 256, 256), 0.0)} == {256}


def test_a_late_first_token_never_satisfies_and_one_to_come_does_until_it_is_late():
    late = served(0.0, [6.0, 6.1, 6.2])
    assert satisfaction([late], 4.0, TARGETS) == 1.0
    assert satisfaction([late], 5.5, TARGETS) == 0.0
    assert satisfaction([late], 6.15, TARGETS) == 0.0


def test_slow_tokens_do_not_satisfy_and_later_fast_ones_do_again():
    slow = served(0.0, [1.0, *(2.0 + i for i in range(10)), *(12.0 + 0.1 * i for i in range(200))])
    assert satisfaction([slow], 10.5, TARGETS) == 0.0
    assert satisfaction([slow], 25.0, TARGETS) == 1.0


def test_no_request_in_flight_is_no_ratio():
    assert satisfaction([served(1.0, [2.0])], 0.5, TARGETS) is None
    assert satisfaction([served(1.0, [2.0])], 2.5, TARGETS) is None


def test_the_document_has_a_row_per_scheduler(monkeypatch):
    monkeypatch.setattr(online, "draw_online", lambda rng, **_: draw_online(rng, num_requests=5, urgent_share=0.5))
    names = ("baseline", "ours", "ours_urgent")
    document = run_online(find_pipeline(DEFAULT_PIPELINE), [1, 2], lambda _: None, names=names)
    assert set(document["schedulers"]) == set(names)
    assert document["schedulers"]["baseline"]["below_baseline_share"] == 0.0
    assert 0.0 <= document["schedulers"]["ours"]["mean_satisfaction"] <= 1.0
    assert len(document["series"]["ours"]) == len(document["series"]["time_s"])
