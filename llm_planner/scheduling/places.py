# SPDX-License-Identifier: Apache-2.0
"""Where generations are: running, ready, suspended, at rest with a complete plan; and whose KV is to be released."""

from collections.abc import Iterable

from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger
from llm_planner.scheduling.policies.interface import Policy
from llm_planner.scheduling.ready_queue import ReadyQueue
from llm_planner.scheduling.suspended import SuspendedGenerations


class Places:
    """The places of a scheduler's generations, by request id.

    Attributes:
        running: They hold a slot.
        ready: They could run: new ones, suspended ones that are due, paused and preempted ones.
        suspended: Their robots are busy.
        retained: Their plan is complete. They run again only if something is inserted, and keep their KV for that while
            no other generation needs the memory.
        released: They ended, or lost their KV and are queued again; their KV goes with the next step.

    Args:
        policy: Ranks the ready ones.
    """

    def __init__(self, policy: Policy) -> None:
        self.running: dict[str, Generation] = {}
        self.ready = ReadyQueue(policy)
        self.suspended = SuspendedGenerations()
        self.retained: dict[str, Generation] = {}
        self.released: dict[str, Generation] = {}

    def retained_blocks(self, ledger: KVLedger) -> int:
        """Returns how many blocks are at rest, and free as soon as any generation needs them."""
        return sum(map(ledger.claimed_blocks, self.retained))

    def find(self, request_id: str) -> Generation | None:
        """Returns an unfinished generation."""
        found = self.running.get(request_id) or self.ready.get(request_id)
        return found or self.suspended.get(request_id)

    def take(self, request_id: str) -> Generation | None:
        """Takes a generation out of its place, if it is in one; one that ran is paused."""
        generation = self.find(request_id) or self.retained.get(request_id)
        if generation is not None:
            if self.running.pop(request_id, None) is not None:
                generation.pause()
            self.suspended.pop(request_id)
            self.ready.pop(request_id)
            self.retained.pop(request_id, None)
        return generation

    def end(self, request_id: str) -> None:
        """Takes a generation out, if it is in, and finishes it."""
        generation = self.take(request_id)
        if generation is None:
            return
        if generation.state is not GenerationState.WAITING:
            self.released[request_id] = generation
        generation.finish()

    def pause(self, generation: Generation) -> None:
        """Takes the slot, but not the KV, of a running generation for a more pressing one."""
        del self.running[generation.request_id]
        generation.pause()
        self.ready.add(generation)

    def suspend(self, generation: Generation) -> None:
        """Takes a generation out at a segment boundary; one with steps in flight may have been paused meanwhile."""
        if self.running.pop(generation.request_id, None) is not None:
            generation.suspend()
        else:
            self.ready.pop(generation.request_id)
            generation.num_suspensions += 1

    @property
    def generations(self) -> Iterable[Generation]:
        """All unfinished generations."""
        return (*self.running.values(), *self.ready.values(), *self.suspended.values())

    def check_integrity(self, ledger: KVLedger) -> None:
        """Asserts that every generation is in one place only, in the right state, and that the KV adds up."""
        ledger.check_integrity()
        ids = [g.request_id for g in (*self.generations, *self.retained.values())]
        assert len(ids) == len(set(ids))
        assert all(g.state is GenerationState.RUNNING for g in self.running.values())
        queued = (*self.suspended.values(), *self.ready.values(), *self.retained.values())
        assert all(g.state in (GenerationState.WAITING, GenerationState.SUSPENDED) for g in queued)
        for generation in (*self.generations, *self.retained.values()):
            shared = generation.sequence.num_cached_tokens // ledger.block_size
            kv_blocks = ledger.blocks_for(generation.kv_len) - shared
            expected = 0 if generation.is_offloaded else kv_blocks
            assert ledger.private_blocks(generation.request_id) == expected, generation
