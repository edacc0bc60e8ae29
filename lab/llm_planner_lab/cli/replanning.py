# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench replanning``: plans that fail on the way, gone on with or made again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import ConfigOption, ModelOption, SeedOption, ThreadsOption
from llm_planner.cli.output import console
from llm_planner_lab.cli.live import planner_config
from llm_planner_lab.cli.shared import write_json

JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")]


def replanning(
    model: ModelOption = None,
    config: ConfigOption = None,
    per_family: Annotated[
        int, typer.Option(min=1, help="Tasks of each family that the model solves undisturbed.")
    ] = 15,
    max_replans: Annotated[int, typer.Option(min=1, help="Tries behind the first plan, both ways.")] = 2,
    threads: ThreadsOption = 1,
    seed: SeedOption = 0,
    json: JsonFile = None,
) -> None:
    """Compare plans that go on when a segment fails with plans that are asked for again.

    Held-out tasks in kinematic worlds where something goes wrong: a call is blocked once, the object of the task has
    moved behind the robot, or it is gone. All ways get the new scene. Printed per way, again / fresh / keep (see the
    setting replan_context): tasks achieved in the end (goal tests by execution), mean tokens computed from a failure to
    the next segment, and median milliseconds until it came (engine steps by processor time, for other programs do not
    disturb that; robot and network in virtual time).
    """
    from dataclasses import replace

    from llm_planner_lab.bench.replanning.benchmark import WAYS, Bench, Score, total

    bench = Bench(replace(planner_config(model, config, threads), max_replans=max_replans, length_predictor=""))
    ways = " / ".join(WAYS)
    table = Table("fault", "family", "tasks", "achieved", "tokens", "ms", caption=ways)
    by_kind: dict[str, list[dict[str, Score]]] = {}
    rows = []

    def add(kind: str, family: str, scores: dict[str, Score]) -> None:
        of = {way: scores[way].row() for way in WAYS}
        keys = ("num_achieved", "mean_tokens", "median_ms")
        cells = [" / ".join("-" if of[way][key] is None else str(of[way][key]) for way in WAYS) for key in keys]
        table.add_row(kind, family, str(of[WAYS[0]]["num_tasks"]), *cells)
        rows.append({"fault": kind, "family": family, **of})

    try:
        for kind, family, scores in bench.run(per_family, seed):
            by_kind.setdefault(kind, []).append(scores)
            add(kind, family, scores)
    finally:
        bench.close()
    for kind, families in by_kind.items():
        add(kind, "all", {way: total(scores[way] for scores in families) for way in WAYS})
    console.print(table)
    if json is not None:
        write_json({"per_family": per_family, "seed": seed, "max_replans": max_replans, "rows": rows}, json)
