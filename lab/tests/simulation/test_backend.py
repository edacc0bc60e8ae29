# SPDX-License-Identifier: Apache-2.0
from lab.tests.simulation.builders import PROFILE
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner_lab.simulation.backend import SimulatedBackend


def started(num_prompt_tokens):
    backend = SimulatedBackend(PROFILE, lambda request_id: 100)
    prompt = Sequence(request_id="r", prompt_token_ids=tuple(range(num_prompt_tokens)))
    backend.execute(SchedulerOutput(new=(prompt,), num_scheduled_tokens={"r": num_prompt_tokens}))
    return backend


def test_after_an_eviction_memory_is_free_and_steps_are_as_short_as_those_of_a_shorter_prompt():
    evicted, short = started(1600), started(400)
    steps = [
        backend.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={"r": 1}))
        for backend, evict in ((started(1600), {}), (evicted, {"r": 1200}), (short, {}))
    ]
    assert steps[1] == steps[2]
    assert steps[1].token_ids == steps[0].token_ids
    assert steps[1].free_kv_blocks == steps[0].free_kv_blocks + 1200 // PROFILE.block_size
    assert steps[1].duration_s < steps[0].duration_s


def test_the_first_step_after_the_prompt_may_also_restore():
    backend = started(1600)
    backend.execute(SchedulerOutput(offload=("r",)))
    output = backend.execute(SchedulerOutput(restore=("r",), evict={"r": 1200}, num_scheduled_tokens={"r": 1}))
    assert output.free_kv_blocks == PROFILE.num_kv_blocks - -(-401 // PROFILE.block_size)
    assert backend.execute(SchedulerOutput(release=("r",))).free_kv_blocks == PROFILE.num_kv_blocks
