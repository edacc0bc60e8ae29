# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from llm_planner_lab.bench.pipeline import benchmark, online, sweeps, timeline
from llm_planner_lab.bench.pipeline.benchmark import PipelineBench, changed_profile, run_pipeline
from llm_planner_lab.bench.pipeline.figures import draw_pipeline
from llm_planner_lab.bench.pipeline.offline import OFFLINE
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.bench.pipeline.timeline import busy_shares
from llm_planner_lab.reports import write_report
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.stages import Passage


def test_busy_shares_of_a_passage_over_three_bins():
    shares = busy_shares([Passage(1, 0.5, 2.25, 3, 1)], num_stages=2, bin_s=1.0, num_bins=4)
    assert shares == pytest.approx(np.array([[0, 0, 0, 0], [0.5, 1.0, 0.25, 0]]))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(
        online,
        "draw_online",
        lambda *_, **__: [
            PipelineRequest(request_id=i, arrival_s=3.0 * i, num_prompt_tokens=32, num_output_tokens=8)
            for i in range(4)
        ],
    )
    monkeypatch.setattr(online, "_times", lambda _: dict.fromkeys(
        ("ttft_p50_s", "ttft_p95_s", "itl_p50_s", "itl_p99_s", "urgent_ttft_p50_s", "urgent_ttft_p95_s",
         "urgent_whole_p50_s"), 0.0
    ))  # fmt: skip
    monkeypatch.setattr(sweeps, "WORKLOAD", Workload(4, 32, 8))
    monkeypatch.setattr(timeline, "WORKLOAD", Workload(4, 32, 8))
    monkeypatch.setattr(benchmark, "commit", lambda: "abc")
    return PipelineBench(workloads=(Workload(4, 32, 8), Workload(64, 256, 256)))


def test_the_document_has_the_documented_keys_and_the_page_its_figures(tiny, tmp_path):
    document = run_pipeline(tiny, lambda _: None)
    keys = {"workloads", "mean_speedup", "max_speedup", "mean_idle_reduction", "max_idle_reduction", "online"}
    assert keys <= set(document)
    for row in document["workloads"]:
        assert {"name", "published", "baseline", "token_budget", "both", "vllm_0_32", "ours"} <= set(row)
        assert {"completion_s", "idle_s"} <= set(row["both"])
    written = write_report("pipeline", document, tmp_path / "out.json", tmp_path / "pipeline.md")
    lines = timeline.timelines(changed_profile(tiny), OFFLINE)
    written += draw_pipeline(document, lines, tmp_path / "figures")
    assert len(written) == 6
    assert all(path.stat().st_size > 0 for path in written)
    assert json.loads((tmp_path / "out.json").read_text())["setup"]["commit"] == "abc"
    page = (tmp_path / "pipeline.md").read_text()
    for figure in tmp_path.glob("figures/*.png"):
        assert f"figures/{figure.name}" in page
