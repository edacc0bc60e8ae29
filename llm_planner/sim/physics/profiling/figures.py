# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured, before and after, on calls that were not profiled."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_planner.robots.timing import DurationModel
from llm_planner.sim.physics.profiling.collect import Sample
from llm_planner.sim.physics.profiling.evaluate import predicted

COLUMNS = 3


def draw_profile(
    path: Path, title: str, parts: Mapping[str, tuple[DurationModel, DurationModel, Sequence[Sample]]]
) -> None:
    """Draws a picture per group of skills: each call a point, the line where prediction and measurement agree.

    Args:
        path: Of the picture.
        title: Above all.
        parts: By label: the duration models before and after, and calls.
    """
    rows = -(-len(parts) // COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 3.6 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for ax, (label, (before, after, samples)) in zip(axes, parts.items(), strict=False):
        _draw(ax, label, before, after, samples)
    for ax in axes:
        ax.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw(ax: Axes, label: str, before: DurationModel, after: DurationModel, samples: Sequence[Sample]) -> None:
    measured = [sample.seconds for sample in samples]
    longest = 1.1 * max(measured)
    for duration, name, colour in ((before, "before", "tab:gray"), (after, "profiled", "tab:blue")):
        medians = [predicted(duration, sample).p50_s for sample in samples]
        longest = max(longest, 1.1 * max(medians))
        ax.plot(medians, measured, ".", color=colour, markersize=4, alpha=0.6, label=name)
    ax.plot([0.0, longest], [0.0, longest], color="black", linewidth=0.8)
    ax.set(title=label, xlabel="predicted median (s)", ylabel="measured (s)", xlim=(0, longest), ylim=(0, longest))
    ax.legend(fontsize="small")
