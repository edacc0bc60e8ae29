# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.measure MODEL``: figures by family, and the model card that holds them."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from llm_planner.assembly import build_library, build_loop
from llm_planner.checkpoints import min_confidence
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, ROBOTS, corpus, of_authors
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty
from llm_planner_lab.training.card import People, model_card
from llm_planner_lab.training.evaluate import Evaluation, evaluate
from llm_planner_lab.training.network import load_network
from llm_planner_lab.training.understanding import ask, begun, risk_coverage, shares, understanding


def main(
    model: Annotated[Path, typer.Argument(help="Model directory.")],
    per_family: Annotated[int, typer.Option(min=1, help="Tasks of each family with short scenes.")] = 60,
    per_family_long: Annotated[int, typer.Option(min=0, help="Tasks of each family with long scenes.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the tasks.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    card: Annotated[Path | None, typer.Option(help="Write the model card here.")] = None,
    training: Annotated[
        str, typer.Option(help="Sentences on the training run, for the card: steps, tokens, how many authors.")
    ] = "",
) -> None:
    """Measures a planner model on held-out tasks, by execution."""
    console = Console()
    columns = {"up to 40 objects": (per_family, 40), "up to 200 objects": (per_family_long, 200)}
    evaluations: dict[str, Evaluation] = {}
    for title, (count, max_objects) in columns.items():
        if count:
            difficulty = Difficulty(max_objects=max_objects)
            evaluations[title] = evaluate(model, per_family=count, seed=seed, difficulty=difficulty, threads=threads)
            _print(console, title, evaluations[title])
    if card is not None:
        network = load_network(model)
        command = f"python -m llm_planner_lab.training.measure {model} --per-family {per_family}"
        text = model_card(
            evaluations,
            _people(model),
            network=network.config,
            num_parameters=sum(parameter.numel() for parameter in network.parameters()),
            training=training,
            command=f"{command} --per-family-long {per_family_long} --seed {seed}",
        )
        card.write_text(text, encoding="utf-8")


def _people(model: Path) -> People:
    """Measures a model on the sentences of the held-out authors."""
    config = PlannerConfig(
        engine=EngineConfig(model=str(model), dtype="float32", device="cpu", num_threads=1),
        scheduler=SchedulerConfig(policy="fcfs", max_num_seqs=16),
    )
    library, frames = build_library(config), of_authors(corpus(), HELD_OUT_AUTHORS)
    robots = {name: library.get(name) for name in ROBOTS}
    with closing(build_loop(config, do_clients_report=False)) as loop:
        at_default = ask(loop, robots, frames)
    streamed = replace(config, waits_for_plan_s=0.0, scheduler=replace(config.scheduler, policy="fcfs_stream"))
    with closing(build_loop(streamed, do_clients_report=False)) as loop:
        begun_share = begun(ask(loop, robots, frames))
    curve = risk_coverage(understanding(config, robots, frames))
    return People(shares=shares(at_default), begun=begun_share, curve=curve, min_confidence=min_confidence(config))


def _print(console: Console, title: str, evaluation: Evaluation) -> None:
    console.print(f"[bold]{title}")
    for name in FAMILY_NAMES:
        score = evaluation.scores[name]
        console.print(f"{name:18} {score.num_achieved:4}/{score.num_tasks:<4} {score.success:6.1%}")
        for failure in score.failures[:2]:
            console.print(
                f"    {failure.instruction} | {failure.scene[:100]} | {failure.plan} | {failure.reason}",
                style="dim",
                markup=False,
            )
    total = evaluation.total
    console.print(f"{'all':18} {total.num_achieved:4}/{total.num_tasks:<4} {total.success:6.1%}")


if __name__ == "__main__":
    typer.run(main)
