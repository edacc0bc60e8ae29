# SPDX-License-Identifier: Apache-2.0
"""The loop over the torch engine: the same plans whatever the schedule, and block accounts that agree."""

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import torch

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.resources import share_dir
from llm_planner.engine.backend import TorchBackend
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from tests.engine.builders import save_model
from tests.serving.builders import make_request
from tests.serving.loop_run import Run

INSTRUCTIONS = ("fly up", "go to the red box", "take a picture of it and come back", "look around", "say hello")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    torch.set_num_threads(1)
    return save_model(tmp_path_factory.mktemp("model") / "llama")


class ShortPlans(PlanPreparer):
    """Replaces the robot's grammar, in which a random model would babble, by one of short moves."""

    def prepare(self, request):
        prepared = super().prepare(request)
        grammar = 'start: ("mf(" /[2-9][0-9]/ ");" | "tc(" /[1-9][0-9]/ ");" | "h();"){3,}\n'
        return replace(prepared, sequence=replace(prepared.sequence, grammar=grammar))


def plan(
    model_dir,
    policy,
    *,
    num_kv_blocks=512,
    can_offload=True,
    together=True,
    lookahead="off",
    is_pressing=lambda _: False,
    make_preparer=ShortPlans,
    instructions=INSTRUCTIONS,
    **config,
):
    """Returns code, text and candidates per instruction, and how often generations were offloaded or preempted."""
    backend = TorchBackend(model_dir, num_kv_blocks=num_kv_blocks, block_size=8, lookahead=lookahead)
    info = replace(backend.info, can_offload=can_offload)
    scheduler = Scheduler(SchedulerConfig(policy=policy, **config), make_policy(policy), info)
    preparer = make_preparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    run = Run(PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, second_look_s=60.0))
    counts = count_losses(scheduler)
    run.loop.let_interrupt(is_pressing)
    for instruction in instructions:
        run.take(run.loop.submit(make_request(instruction, instruction, max_tokens=48), run.now_s))
        if not together:
            run.go()
    run.go()
    assert not run.loop._is_kv_off, "ledger and block manager disagree"
    backend.check_integrity()
    run.loop.close()
    results = {i: run.result(i) for i in instructions}
    return {i: (r.error_code, r.plan, (r.error_msg, *r.candidates)) for i, r in results.items()}, counts


def count_losses(scheduler: Scheduler) -> Counter:
    """Counts what the schedule does to memory, from its own output."""
    counts, schedule = Counter(), scheduler.schedule

    def counting(now_s):
        scheduled = schedule(now_s)
        counts.update(offloaded=len(scheduled.offload), recomputed=sum(bool(s.output_token_ids) for s in scheduled.new))
        counts.update(steps=len(scheduled.num_scheduled_tokens))
        return scheduled

    scheduler.schedule = counting
    return counts


@pytest.fixture(scope="module")
def expected(model_dir):
    return plan(model_dir, "fcfs_stream", together=False)[0]


def test_the_model_says_enough_to_compare(expected):
    assert sum(text.count(";") for _, text, _ in expected.values()) >= 15, expected


@pytest.mark.parametrize("policy", ["fcfs_stream", "fcfs_segment"])
@pytest.mark.parametrize("max_num_batched_tokens", [2048, 16])
def test_any_batch_gives_the_same_plans(model_dir, expected, policy, max_num_batched_tokens):
    assert plan(model_dir, policy, max_num_batched_tokens=max_num_batched_tokens)[0] == expected


@pytest.mark.parametrize("lookahead", ["off", "forced", "always"])
@pytest.mark.parametrize(("can_offload", "loss"), [(True, "offloaded"), (False, "recomputed")])
def test_short_memory_gives_the_same_plans(model_dir, expected, can_offload, loss, lookahead):
    got, counts = plan(model_dir, "fcfs_segment", num_kv_blocks=26, can_offload=can_offload, lookahead=lookahead)
    assert got == expected
    assert counts[loss] > 0


@pytest.mark.parametrize(("can_offload", "num_kv_blocks"), [(True, 512), (True, 26), (False, 26)])
@pytest.mark.parametrize("max_num_batched_tokens", [2048, 16])
def test_steps_that_are_given_up_change_no_plan(
    model_dir, expected, can_offload, num_kv_blocks, max_num_batched_tokens
):
    rng, asked = random.Random(0), Counter()

    def is_pressing(share):
        pressing = rng.random() < 0.2
        asked.update([pressing])
        return pressing

    got, _ = plan(
        model_dir,
        "fcfs_segment",
        num_kv_blocks=num_kv_blocks,
        can_offload=can_offload,
        lookahead="always",
        is_pressing=is_pressing,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    assert got == expected
    assert asked[True] > 5


@pytest.mark.parametrize("policy", ["fcfs_stream", "fcfs_segment", "tardiness"])
@pytest.mark.parametrize("max_num_batched_tokens", [2048, 16])
def test_several_tokens_per_step_give_the_same_plans_in_fewer_steps(
    model_dir, expected, policy, max_num_batched_tokens
):
    limits = {"max_num_batched_tokens": max_num_batched_tokens}
    plain, plain_counts = plan(model_dir, policy, **limits)
    got, counts = plan(model_dir, policy, lookahead="always", **limits)
    assert got == plain == expected
    assert counts["steps"] < plain_counts["steps"]
    assert counts["recomputed"] <= plain_counts["recomputed"]  # no request lost memory to a guess


VAGUE = ("sidestep", "jump twice", "take it easy and climb", "quick pic, then hop", "scoot along a bit")


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "fcfs_stream", "max_num_batched_tokens": 16},
        {"policy": "tardiness", "lookahead": "always"},
        {"policy": "fcfs_segment", "num_kv_blocks": 60, "can_offload": False, "lookahead": "forced"},
    ],
)
def test_a_second_look_finds_the_same_plans_whatever_the_schedule(options):
    bundled = {
        "model_dir": share_dir() / "models" / "planner-small",
        "make_preparer": partial(PlanPreparer, style=PromptStyle.COMPACT, min_confidence=0.99),
        "instructions": VAGUE,
    }
    alone, counts = plan(policy="fcfs_stream", together=False, **bundled)
    assert sum(len(plans) > 1 for _, _, (_, *plans) in alone.values()) > 2, alone
    assert counts["recomputed"] > len(VAGUE), "further plans were written"
    assert plan(**bundled, **options)[0] == alone
