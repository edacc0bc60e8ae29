# SPDX-License-Identifier: Apache-2.0
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from llm_planner.core.errors import PlannerError
from llm_planner.language.parser import parse
from llm_planner.prediction.profile import find_profile
from llm_planner_lab.bench.artifact import PAPER_VLLM, by_class, calibrated, slowed
from llm_planner_lab.cli.bench import app
from llm_planner_lab.simulation.timelyllm_samples import REQUEST_GAP_S, SAMPLE_1, SAMPLE_2, SKILLS, trace


@pytest.mark.parametrize(
    ("sample", "number", "tasks"), [(SAMPLE_1, 532, [5, 6, 1, 8, 7, 8]), (SAMPLE_2, 295, [3, 1, 6, 7, 2, 3])]
)
def test_the_published_workloads(sample, number, tasks):
    requests = trace(sample).requests
    assert len(requests) == sum(len(numbers) for _, numbers in sample.bursts) == number
    assert [r.time_s for r in requests] == sorted(r.time_s for r in requests)
    assert len({r.robot_id for r in requests}) == sample.num_robots
    assert [r.task for r in requests[:6]] == tasks
    assert requests[1].time_s == pytest.approx(sample.bursts[0][0] + REQUEST_GAP_S)
    assert Counter(r.urgency for r in requests)["urgent"] == sum(t in (6, 7, 8) for t in (r.task for r in requests))
    assert sorted(number for number, _, _ in SKILLS) == list(range(1, 9))
    assert all(len(parse(plan)) == len(durations_s) for _, plan, durations_s in SKILLS)


def test_a_slower_profile_takes_as_many_times_longer():
    profile = find_profile("llama3-8b-rtx4090")
    slow = slowed(profile, 2.0)
    assert slow.decode.base_s.value == 2 * profile.decode.base_s.value
    assert slow.prefill.b_s_per_token.value == 2 * profile.prefill.b_s_per_token.value
    assert slow.resume == profile.resume


def _metrics(share):
    times = {"mean": 0.1, "p99": 0.2}
    one = {"n": 1, "utility_share_of_max": share, "response_time_s": times, "deadline_hit": 1.0, "share_served": 1.0}
    return {
        "urgent": one,
        "normal": one,
        "1": one,
        "6": {**one, "utility_share_of_max": share - 0.1},
        "7": one,
        "8": one,
    }


def test_each_task_type_counts_the_same():
    assert by_class(_metrics(0.9))["urgent"]["share_of_max"] == pytest.approx((0.8 + 0.9 + 0.9) / 3)


def test_the_engine_is_set_by_the_baseline_alone():
    asked = []

    def run(policy, factor):
        asked.append(policy)
        return _metrics(1.0 - 0.2 * factor)

    factor = calibrated(run)
    assert by_class(run("fcfs", factor))["urgent"]["share_of_max"] == pytest.approx(PAPER_VLLM, abs=1e-4)
    assert set(asked) == {"fcfs"}
    with pytest.raises(PlannerError, match="take another profile"):
        calibrated(lambda _policy, _factor: _metrics(1.0))


def test_the_page_shows_each_policy(tmp_path):
    result = CliRunner().invoke(app, ["artifact", "--policies", "fcfs,tardiness", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "artifact.json").read_text())
    page = (tmp_path / "artifact.md").read_text()
    for case in document["cases"]:
        whole, ours = case["policies"]["fcfs"]["urgent"], case["policies"]["tardiness"]["urgent"]
        if "sample 2" in case["workload"]:
            assert whole["share_of_max"] == pytest.approx(PAPER_VLLM, abs=0.01)
        assert ours["share_served"] == 1.0
        assert f"| `tardiness` | {100 * ours['share_of_max']:.1f} |" in page
