"""A picture of a run: one lane per robot, generation above execution, so that one sees segments overlap motion."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class SpanKind(Enum):
    """What a span of a lane shows."""

    WAITING = "robot waits for the planner"
    GENERATION = "generation"
    EXECUTION = "execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One bar of the picture.

    Attributes:
        lane: Name of the robot.
        start_s: Start, in seconds since the run began.
        label: Text inside the bar, if it fits.
        is_urgent: Whether it belongs to an urgent goal.
    """

    lane: str
    kind: SpanKind
    start_s: float
    end_s: float
    label: str = ""
    is_urgent: bool = False


_COLOURS = {
    SpanKind.WAITING: ("#f2d7c9", "#f2b8a0"),
    SpanKind.GENERATION: ("#3b6fb6", "#c0392b"),
    SpanKind.EXECUTION: ("#a9c8a4", "#e6a14f"),
}
# A lane is one unit high: generation in the upper part, waiting and execution in the lower part.
_OFFSET_AND_HEIGHT = {
    SpanKind.GENERATION: (0.50, 0.28),
    SpanKind.WAITING: (0.12, 0.34),
    SpanKind.EXECUTION: (0.12, 0.34),
}
_SHORTEST_VISIBLE_S = 0.06  # generation of a segment takes milliseconds: draw at least a hairline


def draw_timeline(spans: Iterable[Span], path: Path, title: str) -> None:
    """Writes a PNG with one lane per robot.

    Args:
        spans: Bars in any order.
        path: Where the PNG goes; its directory must exist.
        title: Shown above the picture.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    bars = sorted(spans, key=lambda span: (span.lane, span.start_s))
    lanes = sorted({span.lane for span in bars}, reverse=True)
    end_s = max((span.end_s for span in bars), default=1.0)
    figure, axes = plt.subplots(figsize=(14, 1.4 + 1.0 * max(1, len(lanes))), layout="constrained")
    for span in bars:
        offset, height = _OFFSET_AND_HEIGHT[span.kind]
        width_s = max(span.end_s - span.start_s, _SHORTEST_VISIBLE_S if span.kind is SpanKind.GENERATION else 0.0)
        colour = _COLOURS[span.kind][span.is_urgent]
        axes.broken_barh(
            [(span.start_s, width_s)],
            (lanes.index(span.lane) + offset, height),
            facecolors=colour,
            edgecolors="white",
            linewidth=0.5,
        )
        if span.label and width_s > 0.008 * end_s * len(span.label):
            middle = (span.start_s + width_s / 2, lanes.index(span.lane) + offset + height / 2)
            axes.text(*middle, span.label, ha="center", va="center", fontsize=7, family="monospace")
    axes.set(xlim=(0, end_s * 1.01), ylim=(0, len(lanes)), xlabel="seconds since the first goal", title=title)
    axes.set_yticks([index + 0.45 for index in range(len(lanes))], lanes)
    axes.grid(axis="x", alpha=0.3)
    legend = [
        Patch(color=_COLOURS[kind][urgent], label=kind.value + (", urgent goal" if urgent else ""))
        for kind in (SpanKind.GENERATION, SpanKind.EXECUTION, SpanKind.WAITING)
        for urgent in (False, True)
    ]
    axes.legend(
        handles=legend, ncols=3, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.35 / len(lanes) - 0.06)
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
