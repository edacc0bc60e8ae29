# SPDX-License-Identifier: Apache-2.0
"""What a scrape says: vLLM's names with vLLM's meaning."""

import math

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanMetrics, PlanResult
from llm_planner.monitoring.prometheus import PlannerMetrics
from tests.cli.test_top_screen import make_goal, make_view


def scrape(metrics: PlannerMetrics) -> dict[str, float]:
    """Returns every sample by name and labels, as Prometheus itself would read it."""
    text = generate_latest(metrics.registry).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(sample.labels["model_name"] == "small" for sample in samples)
    extra = [
        ",".join(v for k, v in sorted(s.labels.items()) if k not in {"model_name", "policy", "num_kv_blocks"})
        for s in samples
    ]
    return {s.name + (f"{{{label}}}" if label else ""): s.value for s, label in zip(samples, extra, strict=True)}


def test_before_the_first_view_nothing_is_claimed():
    assert not [name for name in scrape(PlannerMetrics("small")) if "running" in name]


def test_a_view_becomes_the_gauges_that_vllm_users_know():
    metrics = PlannerMetrics("small")
    metrics.show(make_view(make_goal("drone_1")))
    shown = scrape(metrics)
    assert shown["vllm:num_requests_running"] == 4
    assert shown["vllm:num_requests_waiting"] == 2
    assert shown["llm_planner:num_requests_suspended"] == 1
    assert shown["vllm:kv_cache_usage_perc"] == pytest.approx(0.4)
    assert shown["vllm:generation_tokens_total"] == 0
    assert shown["llm_planner:is_active"] == 1


def test_an_engine_without_kv_uses_none_of_it():
    metrics, view = PlannerMetrics("small"), make_view()
    object.__setattr__(view.loop.status, "num_kv_blocks", 0)
    object.__setattr__(view.loop.status, "num_free_kv_blocks", 0)
    metrics.show(view)
    assert scrape(metrics)["vllm:kv_cache_usage_perc"] == 0


def test_results_are_counted_by_code_and_distributed():
    metrics = PlannerMetrics("small")
    done = PlanMetrics(
        response_time_s=0.3, plan_time_s=2.0, num_prompt_tokens=100, num_cached_tokens=80, num_output_tokens=30
    )
    metrics.count(PlanResult(request_id="a", metrics=done))
    metrics.count(PlanResult(request_id="b", error_code=ErrorCode.ROBOT_BUSY, error_msg="busy"))
    shown = scrape(metrics)
    assert shown["llm_planner:goals_ended_total{NONE}"] == 1
    assert shown["llm_planner:goals_ended_total{ROBOT_BUSY}"] == 1
    assert shown["vllm:prefix_cache_hits_total"] / shown["vllm:prefix_cache_queries_total"] == pytest.approx(0.8)
    assert shown["llm_planner:time_to_first_segment_seconds_count"] == 1
    assert shown["llm_planner:time_to_first_segment_seconds_bucket{0.35}"] == 1
    assert shown["llm_planner:time_to_first_segment_seconds_bucket{0.2}"] == 0
    assert shown["vllm:request_prompt_tokens_sum"] == 100
    assert all(math.isfinite(value) for value in shown.values())


def test_a_goal_that_the_server_ended_itself_is_in_no_histogram_of_what_it_does_not_know():
    metrics = PlannerMetrics("small")
    known = PlanMetrics(response_time_s=0.3, waiting_time_s=0.4, execution_time_s=6.0, num_prompt_tokens=100)
    metrics.count(PlanResult(request_id="a", metrics=known))
    unknown = PlanMetrics(response_time_s=0.3, time_utility=0.0)
    metrics.count(PlanResult(request_id="b", error_code=ErrorCode.SUPERSEDED, error_msg="a newer one", metrics=unknown))
    shown = scrape(metrics)
    assert shown["llm_planner:time_to_first_segment_seconds_count"] == 2
    for name, seconds in (("waiting", 0.4), ("execution", 6.0)):
        assert shown[f"llm_planner:robot_{name}_seconds_count"] == 1
        assert shown[f"llm_planner:robot_{name}_seconds_sum"] == seconds
