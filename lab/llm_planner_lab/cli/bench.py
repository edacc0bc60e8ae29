# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench``: benchmarks of scheduling, in virtual time and on a real planner."""

import typer

from llm_planner.cli.lazy import lazy_group
from llm_planner_lab.cli.lazy import LazyCommand

COMMANDS = (
    LazyCommand(
        "budgets",
        "bench_budgets:budgets",
        "Keep all slots busy, send emergencies with time budgets, and say which answers were at the robot in time.",
    ),
    LazyCommand(
        "encounters",
        "encounters:encounters",
        "Let people walk into the way of a drone with a body, and count collisions (needs MuJoCo).",
    ),
    LazyCommand(
        "gpu",
        "gpu:gpu",
        "Measure the torch engine on a device, without checkpoint or network: random weights, made on the spot.",
    ),
    LazyCommand(
        "measures",
        "measures:measures",
        "Compute from a profile what each measure saves of the time until an urgent robot moves.",
    ),
    LazyCommand(
        "physics",
        "bench_physics:physics",
        "Carry out reference plans with bodies and without, by family; measure how fast a fleet lives (needs MuJoCo).",
    ),
    LazyCommand(
        "pipeline",
        "pipeline:pipeline",
        "Compare schedulers of a pipeline in virtual time: vLLM's, the paper's and ours, on the workloads of Table 1.",
    ),
    LazyCommand(
        "pipeline-fit",
        "pipeline:pipeline_fit",
        "Fit the six physical numbers of a pipeline profile to the Baseline columns of Table 1; half an hour.",
    ),
    LazyCommand(
        "pipeline-lengths",
        "pipeline:pipeline_lengths",
        "Simulate what it gains to know or to predict how many tokens requests will bring.",
    ),
    LazyCommand(
        "replanning",
        "replanning:replanning",
        "Compare plans that go on when a segment fails with plans that are asked for again.",
    ),
    LazyCommand(
        "steps",
        "steps:steps",
        "Count model steps and seconds per first segment, with and without forced tokens and drafts.",
    ),
    LazyCommand(
        "timebill",
        "timebill:timebill",
        "Measure time budgets on the engine: predictors, worst cases, eviction and overruns (TimeBill, section 6).",
    ),
    LazyCommand(
        "inventories",
        "timebill:inventories",
        "Measure time budgets where prompts and answers are long, against everything that could be configured.",
    ),
    LazyCommand(
        "vllm",
        "vllm:vllm",
        "Measure what our scheduling costs and brings on vLLM, against the same vLLM with its own scheduler.",
    ),
    LazyCommand(
        "admission",
        "simulate_evaluation:evaluate_admission",
        "Reproduce the evaluation of A_min (section 6) and its theorems in virtual time, with our policy alongside.",
    ),
    LazyCommand(
        "timely",
        "bench_timely:timely",
        "Compare scheduling policies on the same traces: utility, response and waiting times per class of requests.",
    ),
    LazyCommand(
        "overload",
        "bench_overload:overload",
        "Say what order, batch limit and load shedding each bring, and where the default is not the best policy.",
    ),
    LazyCommand(
        "resumption",
        "bench_resumption:resumption",
        "Measure how often robots wait for resumed generations, with much and with little memory, in virtual time.",
    ),
    LazyCommand(
        "validate",
        "bench_timely:validate",
        "Replay one trace live and in virtual time, and say how far the simulated response times are off.",
    ),
    LazyCommand(
        "overhead",
        "bench_timely:overhead",
        "Measure what it costs to generate plans in segments, suspended and resumed, instead of at once; by task.",
    ),
    LazyCommand(
        "nodes",
        "vllm:nodes",
        "Compare our pacers with vLLM's scheduler on stages on several machines with slow links between them.",
    ),
    LazyCommand(
        "replicas",
        "bench_timely:replicas",
        "Measure what a second engine process brings on this machine, and what becomes of goals when one is killed.",
    ),
    LazyCommand("decision", "bench_timely:decision", "Measure how long one scheduling decision takes."),
    LazyCommand(
        "chat",
        "bench_timely:chat",
        "Compare chats answered whole, by paragraphs and by sentences (TimelyLLM 7.4.2), in virtual time.",
    ),
    LazyCommand(
        "artifact",
        "bench_timely:artifact",
        "Compare policies on the workloads that the authors of TimelyLLM published; their baseline sets the engine.",
    ),
    LazyCommand(
        "pages",
        "pages:pages",
        "Write the pages of docs/benchmarks again from the result files next to them.",
    ),
    LazyCommand(
        "section7",
        "bench_timely:section7",
        "Reproduce section 7 of TimelyLLM in virtual time and write timely.md; takes some minutes.",
    ),
)

app = typer.Typer(cls=lazy_group(COMMANDS), no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Benchmarks of scheduling, in virtual time and on a real planner."""
