# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity plan``: how many servers a fleet needs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, SeedOption
from llm_planner.cli.output import console, plain, print_json
from llm_planner.core.text import counted


def plan(
    robots: Annotated[str, typer.Option(help="The fleet: MODEL:COUNT with commas between, e.g. tello:20,indy7:4.")],
    llm: Annotated[str, typer.Option("--model", help="Language model, as the throughput table names it.")],
    hardware: Annotated[str, typer.Option(help="Device, as the table names it.")],
    slo: Annotated[float, typer.Option(help="Seconds from a request to the robot's first segment, at most.")],
    share: Annotated[float, typer.Option(help="Share of the responses that must keep it.")] = 0.95,
    framework: Annotated[str, typer.Option(help="What serves the model.")] = "vLLM",
    devices: Annotated[int, typer.Option(min=1, max=1024, help="Devices of one server.")] = 1,
    using: Annotated[
        Path | None, typer.Option("--using", help="File of `capacity fit`. Default: the shipped one.")
    ] = None,
    duration: Annotated[
        float, typer.Option(min=10.0, help="Seconds of the fleet's work to simulate, at least.")
    ] = 300.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Plan servers and batch limit for a fleet, with an interval, by simulation; some minutes.

    Each robot does the tasks of TimelyLLM's traces for its model, with pauses between. One server with its share of the
    robots runs in virtual time with the planner's own scheduler, for 2,000 requests (or 10,000 s, if that takes longer
    and --duration does not ask for more); the closed form only says where to begin. The interval
    is that of the throughput: how many servers would do if it is at the fast or slow end, and what the chosen ones make
    of that.
    """
    from llm_planner.prediction.capacity.room import Objective
    from llm_planner.prediction.throughput.model_file import load_kernel_model
    from llm_planner.prediction.throughput.table import Combination
    from llm_planner.robots.library import RobotLibrary
    from llm_planner_lab.simulation.capacity.fleet import parse_fleet
    from llm_planner_lab.simulation.capacity.plan import plan_capacity
    from llm_planner_lab.simulation.script import ScriptLibrary

    library = RobotLibrary()
    fleet, objective = parse_fleet(robots, library), Objective(slo_s=slo, share=share)
    model, combination = load_kernel_model(using), Combination(hardware, devices, framework, llm)
    scripts = ScriptLibrary(library)
    found = plan_capacity(model, combination, fleet, objective, scripts, seed=seed, duration_s=duration)
    if as_json:
        print_json({"combination": str(combination), **plain(found)})
        return
    low, high = found.num_servers_range
    decision = found.decision
    console.print(
        f"{counted(decision.num_servers, 'server')} ({low} to {high or 'no number'}) of {combination}, "
        f"batch limit {decision.max_num_seqs}, for {robots}: {found.requests_per_s:.3g} requests/s",
        markup=False,
    )
    table = Table("throughput", "simulated utility", f"within {slo:g} s", "mean response", "requests")
    for name, seen in found.at.items():
        figures = (f"{seen.utility:.3f}", f"{seen.share_in_slo:.1%}", f"{seen.mean_response_s:.3f} s")
        table.add_row(name, *figures, str(seen.num_requests))
    console.print(table)
    warning = "" if found.is_seen else "; this combination was never measured: measure it before you buy"
    console.print(f"confidence in the throughput {found.confidence:.2f}{warning}")
