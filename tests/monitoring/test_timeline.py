# SPDX-License-Identifier: Apache-2.0
"""Spans in windows and joined, a picture of them, and the same spans as a Chrome trace."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import PlannerError
from llm_planner.monitoring.chrome_trace import write_chrome_trace
from llm_planner.monitoring.timeline import ENGINE_ROW, Span, SpanKind, draw_timeline, merged, window

TIME = st.floats(0.0, 100.0)
STEP = st.builds(
    lambda start_s, length_s: Span(row="engine", kind=SpanKind.ENGINE, start_s=start_s, end_s=start_s + length_s),
    TIME,
    st.floats(0.0, 10.0),
)


def make_span(start_s, end_s, kind=SpanKind.EXECUTION, row="drone_1", **changes):
    return Span(row=row, kind=kind, start_s=start_s, end_s=end_s, **changes)


@given(st.lists(STEP), st.floats(0.0, 1.0))
def test_joined_spans_cover_the_same_and_lie_apart(spans, gap_s):
    joined = merged(spans, gap_s)
    assert all(b.start_s - a.end_s > gap_s for a, b in itertools.pairwise(joined))
    for span in spans:
        assert any(j.start_s <= span.start_s and span.end_s <= j.end_s for j in joined)
    assert {j.start_s for j in joined} <= {s.start_s for s in spans}
    assert {j.end_s for j in joined} <= {s.end_s for s in spans}


@given(st.lists(STEP), TIME, st.floats(0.1, 50.0))
def test_a_window_shows_what_lies_in_it(spans, start_s, duration_s):
    num_within = sum(s.end_s > start_s and s.start_s < start_s + duration_s for s in spans)
    if not num_within:
        with pytest.raises(PlannerError, match="nothing happens from" if spans else "there is no goal"):
            window(spans, start_s, duration_s)
        return
    shown = window(spans, start_s, duration_s)
    assert all(start_s <= span.start_s <= span.end_s <= start_s + duration_s for span in shown)
    assert len(shown) == num_within
    within = (max(0.0, min(s.end_s, start_s + duration_s) - max(s.start_s, start_s)) for s in spans)
    assert sum(s.end_s - s.start_s for s in shown) == pytest.approx(sum(within), abs=1e-6)


SPANS = [
    make_span(0.0, 0.2, SpanKind.ENGINE, ENGINE_ROW, details={"decodes": 1}),
    make_span(0.0, 0.2, SpanKind.GENERATION),
    make_span(0.0, 0.3, SpanKind.WAITING),
    make_span(0.3, 2.0, label="mf(100);"),
    make_span(1.0, 1.1, SpanKind.GENERATION),
    make_span(2.0, 2.7, label="tc(90);", is_interrupted=True, details={"request": "r1"}),
    make_span(2.8, 4.0, label="mb(50);", is_urgent=True),
    make_span(1.0, 3.0, row="drone_10"),
    make_span(1.0, 3.0, row="drone_9"),
]


def drawn(monkeypatch, spans, path):
    """Returns the axes of the picture."""
    from matplotlib import pyplot as plt

    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    draw_timeline(spans, path, "a run")
    monkeypatch.undo()
    plt.close(figures[0])
    return figures[0].axes[0]


def test_the_engine_has_the_row_above_the_robots_and_the_interrupted_is_hatched(monkeypatch, tmp_path):
    axes = drawn(monkeypatch, SPANS, tmp_path / "t.png")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["drone_10", "drone_9", "drone_1", "engine"]
    hatched = [bar for bar in axes.collections if bar.get_hatch()]
    assert len(hatched) == 1
    assert hatched[0].get_paths()[0].get_extents().intervalx == pytest.approx((2.0, 2.7))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "interrupted before its end" in legend
    assert "execution, urgent goal" in legend
    assert "generation, urgent goal" not in legend
    assert (tmp_path / "t.png").stat().st_size > 1000


def test_a_run_in_which_nothing_happened_can_be_drawn(monkeypatch, tmp_path):
    assert not drawn(monkeypatch, [], tmp_path / "t.png").collections


def test_tracks_of_the_chrome_trace(tmp_path):
    path = tmp_path / "t.json"
    write_chrome_trace(SPANS, path)
    events = json.loads(path.read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted((processes[pid], name) for (pid, _), name in threads.items()) == [
        ("engine", "engine"),
        ("generation of plans", "drone_1"),
        ("robots", "drone_1"),
        ("robots", "drone_10"),
        ("robots", "drone_9"),
    ]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == len(SPANS)
    (interrupted,) = [e for e in slices if "interrupted" in e["cat"]]
    assert interrupted["args"] == {"request": "r1", "interrupted": True}
    assert (interrupted["name"], interrupted["ts"], interrupted["dur"]) == ("tc(90);", 2e6, pytest.approx(0.7e6))


def test_a_dollar_is_a_dollar(tmp_path):
    spans = [make_span(0.0, 10.0, label='l("$_$ ok");')]
    draw_timeline(spans, tmp_path / "run.png", "costs $_$ 5")
    assert (tmp_path / "run.png").stat().st_size > 0
