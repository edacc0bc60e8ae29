# SPDX-License-Identifier: Apache-2.0
"""A picture of a run: a row for the engine, and one per robot with generation above execution."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.extras import load_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

ENGINE_ROW = "engine"


class SpanKind(Enum):
    """What a span of a row shows."""

    ENGINE = "engine at work"
    WAITING = "robot waits for the planner"
    GENERATION = "generation"
    EXECUTION = "execution"
    REFLEX = "reflex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One bar of the picture.

    Attributes:
        row: Name of the robot, or ``ENGINE_ROW``.
        start_s: Start, in seconds since the run began.
        label: Text inside the bar, if it fits.
        is_urgent: Whether it belongs to an urgent goal.
        is_interrupted: Whether it was broken off: its goal was superseded or cancelled, or it failed.
        details: What a viewer shows with it.
    """

    row: str
    kind: SpanKind
    start_s: float
    end_s: float
    label: str = ""
    is_urgent: bool = False
    is_interrupted: bool = False
    details: Mapping[str, object] = field(default_factory=dict)


_COLOURS = {
    SpanKind.ENGINE: ("#6d6d76", "#6d6d76"),
    SpanKind.WAITING: ("#f2d7c9", "#f2b8a0"),
    SpanKind.GENERATION: ("#3b6fb6", "#c0392b"),
    SpanKind.EXECUTION: ("#a9c8a4", "#e6a14f"),
    SpanKind.REFLEX: ("#8e6bb0", "#8e6bb0"),
}
# A row is one unit high: generation in the upper part, waiting and execution in the lower part.
_OFFSET_AND_HEIGHT = {
    SpanKind.ENGINE: (0.20, 0.40),
    SpanKind.GENERATION: (0.50, 0.28),
    SpanKind.WAITING: (0.12, 0.34),
    SpanKind.EXECUTION: (0.12, 0.34),
    SpanKind.REFLEX: (0.12, 0.34),
}
_HATCH, _INTERRUPTED_EDGE = "////", "#7a1f1f"
_SHORTEST_VISIBLE = 0.0015  # of the width: a segment takes milliseconds to generate, so draw at least a hairline


def window(spans: Sequence[Span], start_s: float, duration_s: float | None) -> list[Span]:
    """Returns what lies in a window of time, cut at its edges; up to the end if no duration is given.

    Raises:
        PlannerError: INVALID_CONFIG if nothing does.
    """
    if not spans:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "nothing can be drawn: there is no goal")
    last_s = max(span.end_s for span in spans)
    end_s = last_s if duration_s is None else start_s + duration_s
    shown = [
        replace(span, start_s=max(span.start_s, start_s), end_s=min(span.end_s, end_s))
        for span in spans
        if span.end_s > start_s and span.start_s < end_s
    ]
    if not shown:
        where = f"from {start_s:g} s on" if duration_s is None else f"from {start_s:g} to {end_s:g} s"
        first_s = min(span.start_s for span in spans)
        whole = f"the first goal begins at {first_s:.1f} s, the last ends at {last_s:.1f} s"
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"nothing happens {where}; {whole}")
    return shown


def merged(spans: Iterable[Span], gap_s: float) -> list[Span]:
    """Returns spans of one row and kind with those joined that overlap or lie less than ``gap_s`` apart."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start_s):
        if joined and span.start_s - joined[-1].end_s <= gap_s:
            joined[-1] = replace(joined[-1], end_s=max(joined[-1].end_s, span.end_s), label="")
        else:
            joined.append(span)
    return joined


def draw_timeline(spans: Iterable[Span], path: Path, title: str, start_s: float = 0.0) -> None:
    """Writes a PNG with one row for the engine, if it has spans, and one per robot.

    Args:
        spans: Bars in any order.
        path: Where the PNG goes; its directory must exist.
        title: Shown above the picture.
        start_s: Where the picture begins.

    Raises:
        PlannerError: NOT_INSTALLED if matplotlib is missing.
    """
    load_extra("matplotlib", "plots").use("Agg")
    from matplotlib import pyplot as plt

    given = list(spans)
    length_s = max((span.end_s for span in given), default=start_s + 1.0) - start_s
    steps = merged((span for span in given if span.kind is SpanKind.ENGINE), _SHORTEST_VISIBLE * length_s)
    bars = [*steps, *sorted((s for s in given if s.kind is not SpanKind.ENGINE), key=lambda s: s.start_s)]
    robots = sorted({span.row for span in bars} - {ENGINE_ROW}, key=_natural, reverse=True)
    rows = [*robots, *([ENGINE_ROW] if steps else [])]  # from the bottom up
    figure, axes = plt.subplots(figsize=(14, 1.4 + max(1, len(rows))), layout="constrained")
    for span in bars:
        _draw_bar(axes, span, rows.index(span.row), length_s)
    axes.set(xlim=(start_s, start_s + 1.01 * length_s), ylim=(0, max(1, len(rows))), xlabel="seconds", title=title)
    axes.set_yticks([index + 0.45 for index in range(len(rows))], rows)
    for text in (axes.title, *axes.get_yticklabels()):
        text.set_parse_math(False)  # a $ is a $
    axes.grid(axis="x", alpha=0.3)
    handles = _legend(bars)
    offset = -0.5 / max(1, len(rows))  # below the label of the axis, whose height is about one inch per row
    axes.legend(handles=handles, ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, offset))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _natural(row: str) -> tuple[str, int]:
    """Returns a key by which drone_10 comes after drone_9."""
    name = row.rstrip("0123456789")
    return name, int(row[len(name) :] or 0)


def _draw_bar(axes: "Axes", span: Span, row: int, length_s: float) -> None:
    offset, height = _OFFSET_AND_HEIGHT[span.kind]
    is_thin = span.kind in (SpanKind.GENERATION, SpanKind.ENGINE)
    width_s = max(span.end_s - span.start_s, _SHORTEST_VISIBLE * length_s if is_thin else 0.0)
    axes.broken_barh(
        [(span.start_s, width_s)],
        (row + offset, height),
        facecolors=_COLOURS[span.kind][span.is_urgent],
        edgecolors=_INTERRUPTED_EDGE if span.is_interrupted else "white",
        hatch=_HATCH if span.is_interrupted else None,
        linewidth=0.5,
    )
    if span.label and width_s > 0.008 * length_s * len(span.label):
        middle = (span.start_s + width_s / 2, row + offset + height / 2)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8} if span.is_interrupted else None
        axes.text(
            *middle, span.label, ha="center", va="center", fontsize=7, family="monospace", bbox=box, parse_math=False
        )


def _legend(bars: Sequence[Span]) -> list["Patch"]:
    """Returns the legend of what occurs in the picture."""
    from matplotlib.patches import Patch

    seen = {(span.kind, span.is_urgent and span.kind is not SpanKind.REFLEX) for span in bars}
    handles = [
        Patch(color=_COLOURS[kind][urgent], label=kind.value + (", urgent goal" if urgent else ""))
        for kind in SpanKind
        for urgent in (False, True)
        if (kind, urgent) in seen
    ]
    if any(span.is_interrupted for span in bars):
        handles.append(
            Patch(facecolor="white", edgecolor=_INTERRUPTED_EDGE, hatch=_HATCH, label="interrupted before its end")
        )
    return handles
