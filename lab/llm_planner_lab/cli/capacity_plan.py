"""``llm-planner capacity plan``: how many servers a fleet needs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, SeedOption
from llm_planner.cli.output import console, plain, print_json


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
    check: Annotated[bool, typer.Option(help="Also simulate one server with its share of the fleet.")] = True,
    duration: Annotated[float, typer.Option(min=10.0, help="Seconds of the fleet's work to look at.")] = 300.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Plan servers and batch limit for a fleet, with an interval; checked in virtual time.

    Each robot does the tasks of TimelyLLM's traces for its model, with pauses between. The interval is that of the
    throughput: how many servers would do if it is at the fast or slow end, and what the chosen ones make of that.
    """
    from llm_planner.prediction.capacity.queueing import Objective
    from llm_planner.prediction.throughput.model_file import load_kernel_model
    from llm_planner.prediction.throughput.server_profile import server_profile
    from llm_planner.prediction.throughput.table import Combination
    from llm_planner.robots.library import RobotLibrary
    from llm_planner_lab.simulation.capacity.fleet import demands, fleet_trace, parse_fleet
    from llm_planner_lab.simulation.capacity.plan import ENDS, check_in_simulation, plan_capacity
    from llm_planner_lab.simulation.script import ScriptLibrary

    library = RobotLibrary()
    fleet, objective = parse_fleet(robots, library), Objective(slo_s=slo, share=share)
    model, combination = load_kernel_model(using), Combination(hardware, devices, framework, llm)
    scripts = ScriptLibrary(library)
    load = demands(fleet_trace(fleet, seed, duration, library), scripts)
    found = plan_capacity(model, combination, load, objective)
    simulated = {}
    if check:
        for name, end in ENDS.items():
            profile = server_profile(model, combination, end)
            simulated[name] = check_in_simulation(
                fleet, found.choice, profile, objective, scripts, seed=seed, duration_s=duration
            )
    if as_json:
        print_json({"combination": str(combination), **plain(found), "simulated": simulated or None})
        return
    low, high = found.num_servers_range
    console.print(
        f"{found.choice.num_servers} servers ({low} to {high}) of {combination}, batch limit "
        f"{found.choice.max_num_seqs}, for {robots}: {found.requests_per_s:.3g} requests/s",
        markup=False,
    )
    table = Table(
        "throughput", "utility", f"within {slo:g} s", "mean response", "occupied", "simulated: utility", "within"
    )
    for name, expected in found.at.items():
        seen = simulated.get(name)
        table.add_row(
            name,
            f"{expected.utility:.3f}",
            f"{expected.share_in_slo:.1%}",
            f"{expected.mean_response_s:.3f} s",
            f"{expected.load:.0%}",
            f"{seen.utility:.3f}" if seen else "",
            f"{seen.share_in_slo:.1%}" if seen else "",
        )
    console.print(table)
    if simulated and simulated["expected"].share_in_slo < share:
        console.print(
            f"[yellow]the simulation keeps less than {share:.0%} within {slo:g} s, by queues that the closed form does "
            "not see: take a server more, or plan with a larger --share[/]"
        )
    warning = "" if found.is_seen else "; this combination was never measured: measure it before you buy"
    console.print(f"confidence in the throughput {found.confidence:.2f}{warning}")


def demand(
    robot: Annotated[str, typer.Argument(help="Name of a robot model.")],
    path: Annotated[Path, typer.Argument(help="The YAML file to write, e.g. profiles/demands/ROBOT.yaml.")],
) -> None:
    """Compute the table of what a robot asks for, from which a planner answers how many more it can hold."""
    from llm_planner.prediction.capacity.demand import write_demands
    from llm_planner.robots.library import RobotLibrary
    from llm_planner_lab.simulation.capacity.fleet import demand_table

    table = demand_table(robot, RobotLibrary())
    write_demands(table, path)
    console.print(f"wrote {len(table.demands)} kinds of requests of a {robot} to {path}")
