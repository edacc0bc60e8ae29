# SPDX-License-Identifier: Apache-2.0
"""Parts of a file stay when another part is written, and all are on the page."""

import json

import pytest

from llm_planner_lab.bench.chaos.checks import INVARIANTS
from llm_planner_lab.bench.chaos.parts import judged, with_other_parts
from llm_planner_lab.reports import write_report

SETUP = {"commit": "abc", "seed": 4, "seconds": 60.0, "drones": 2, "arms": 1, "time_scale": 5.0, "backend": "fake"}
SETUP |= {"sim": "kinematic", "every_s": 4.0, "is_soak": False, "processors": 2, "load": 3.0}
GOALS = {
    "accepted": 95,
    "burst": 12,
    "ended": 90,
    "codes": {"NONE": 90},
    "burst_codes": {"NONE": 10},
    "emergencies": 3,
    "cancels": 2,
}
GOALS |= {"segments": 400, "calls": 500, "malformed_messages": 7}
CAMPAIGN = {
    "setup": SETUP,
    "goals": GOALS,
    "faults": {"kill-engine": 3, "missed": 1},
    "figures": {"silence_rule_late_s": {"n": 4, "median": 0.01, "most": 0.2}, "fleet_ready_s": 3.0}
    | {"engine_kills_judged": 2},
    "invariants": dict.fromkeys(INVARIANTS, 0) | {"goals_lost": 1},
    "examples": [{"invariant": "goals_lost", "at_s": 3.0, "fault": 2, "what": "g7 has no outcome"}],
    "memory": {"planner": {"mean_mb": 100.0, "mb_per_h": 0.5, "interval_mb_per_h": 0.2}},
    "reproduce": "llm-planner chaos --seed 4",
}
STARTS = {
    "setup": {"commit": "abc", "seed": 0, "starts": 9, "drones": 2, "arms": 1},
    "figures": {"ready_s": 4.0, "stopped_when_ready": 3, "longest_stop_s": 1.5, "exit_statuses": {"0": 30, "-15": 6}},
    "invariants": {"hangs_at_stop": 0, "orphans": 0, "shared_memory": 0},
    "examples": [],
    "reproduce": "llm-planner chaos --starts 9",
}


def test_every_way_to_run_has_its_part(tmp_path):
    out, page = tmp_path / "chaos.json", tmp_path / "chaos.md"
    soak = {**CAMPAIGN, "setup": {**SETUP, "is_soak": True}, "examples": []}
    for document in (CAMPAIGN, soak, STARTS):
        assert write_report("chaos", with_other_parts(document, out), out, page) == [out, page]
    parts = json.loads(out.read_text())
    assert set(parts) == {"campaign, seed 4", "soak, seed 4", "starts, seed 0"}
    assert parts["campaign, seed 4"] == CAMPAIGN
    text = page.read_text()
    assert "**100 goals ended**" in text
    assert "| SIGKILL to the engine process | 3 |" in text
    assert "| silence rule late | 4 | 0.01 | 0.2 |" in text
    assert "- `goals_lost`, fault 2: g7 has no outcome" in text
    assert "| planner | 100.0 | +0.50 ± 0.20 | +0.50 ± 0.20 |" in text
    assert "started and stopped 9 times" in text
    assert "within its load time + 5 s | 2 | 0 |" in text
    assert "outcome within the bound | 107 | 1 |" in text
    assert "arlier checks" not in text


EARLIER = {key: value for key, value in CAMPAIGN["figures"].items() if key != "engine_kills_judged"}
UNDISTURBED = {"engine_killed_beyond_load_undisturbed_s": {"n": 3, "median": 1.0, "most": 2.0}}


@pytest.mark.parametrize(
    ("backend", "figures", "missing", "num_kills"),
    [
        ("fake", CAMPAIGN["figures"], set(), 2),
        ("torch", CAMPAIGN["figures"], {"false_success"}, 2),
        ("fake", EARLIER | UNDISTURBED, set(), 3),
        ("torch", EARLIER, {"foreign_calls", "false_success", "engine_late"}, None),
        ("fake", EARLIER | {"silence_rule_late_s": None}, {"engine_late", "robots_unsafe"}, None),
    ],
)
def test_what_was_not_judged_is_no_zero(tmp_path, backend, figures, missing, num_kills):
    part = {**CAMPAIGN, "setup": {**SETUP, "backend": backend}, "figures": figures}
    cases = judged(part)
    assert set(INVARIANTS) - set(cases) == missing | {"memory_growth"}
    assert cases.get("engine_late") == num_kills
    page = tmp_path / "chaos.md"
    write_report("chaos", with_other_parts(part, None), None, page)
    text = page.read_text()
    for invariant in missing:
        assert f"| `{invariant}` | {INVARIANTS[invariant]} | - | - |" in text
    assert ("Earlier checks." in text) == ("engine_kills_judged" not in figures)
