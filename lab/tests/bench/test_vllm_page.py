# SPDX-License-Identifier: Apache-2.0
"""The page of the benchmark of vLLM, from made-up figures."""

import re

from llm_planner_lab.bench.vllm_page import page

URGENT = {"first_token_steps": 2.0, "first_token_ms": 9.0, "whole_steps": 13.0, "whole_ms": 61.0}
SCHEDULER = {
    "completion_s": 2.0,
    "tokens_per_s": 640.0,
    "throughput_ratio": 1.25,
    "fastest_tokens_per_s": 700.0,
    "fastest_ratio": 1.5,
    "calls": 80.0,
    "empty_call_share": 0.5,
}
DOCUMENT = {
    "model": "some-model",
    "device": "some processor, vLLM 0.32",
    "vllm": "0.32.0",
    "commit": "abc",
    "cores": 2,
    "load_before": 3.25,
    "one_worker": {
        "num_slots": 8,
        "num_requests": 64,
        "resume": {"inter_token_ms": 5.0, "resume_ms": 6.0, "ratio": 1.2},
        "decision": {
            "step_ms": 20.0,
            "decision_ms": 0.3,
            "handover_ms": 0.2,
            "schedule_ms": 0.8,
            "stock_schedule_ms": 0.7,
            "added_ms": 0.6,
            "share_of_10_ms": 0.06,
        },
        "urgent": dict.fromkeys(("ours", "stock_fcfs", "stock_priority", "alone"), URGENT),
    },
    "pipeline": {
        "num_stages": 2,
        "num_requests": 32,
        "num_tokens": 40,
        "num_turns": 5,
        "schedulers": dict.fromkeys(("stock", "token_budget", "both", "balanced"), SCHEDULER),
    },
}


def test_shows_every_figure_and_what_it_is_measured_against():
    text = page(DOCUMENT)
    assert "1.20 times" in text
    assert "6.0% of a step" in text
    assert text.count("| 2 | 13 | 9 | 61 |") == 4
    assert text.count("| 2.00 | 640 | 1.25 | 700 | 1.50 | 80 | 50% |") == 4
    assert "3.2 other programs" in text
    assert not re.search(r"[{}]", text)


def test_without_a_pipeline():
    text = page({key: value for key, value in DOCUMENT.items() if key != "pipeline"})
    assert "pipeline" not in text
