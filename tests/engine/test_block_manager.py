# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llm_planner.engine.block_manager import BlockManager

NUM_BLOCKS = 12


class Blocks(RuleBasedStateMachine):
    """Holders come and go; a block is free or held by exactly as many as counted."""

    def __init__(self):
        super().__init__()
        self.manager = BlockManager(NUM_BLOCKS)
        self.holders = []

    @rule(count=st.integers(0, NUM_BLOCKS + 1))
    def allocate(self, count):
        num_free = self.manager.num_free
        blocks = self.manager.allocate(count)
        if count > num_free:
            assert blocks is None
        else:
            assert len(set(blocks)) == count
            assert not set(blocks) & {b for holder in self.holders for b in holder}
            self.holders.append(blocks)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def share(self, data):
        holder = data.draw(st.sampled_from(self.holders))
        part = holder[: data.draw(st.integers(0, len(holder)))]
        self.manager.share(part)
        self.holders.append(list(part))

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def free(self, data):
        self.manager.free(self.holders.pop(data.draw(st.integers(0, len(self.holders) - 1))))

    @invariant()
    def conserved(self):
        self.manager.check_integrity(self.holders)
        held = {block for holder in self.holders for block in holder}
        assert self.manager.num_free == NUM_BLOCKS - len(held)


TestBlocks = Blocks.TestCase
TestBlocks.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_integrity_check_sees_a_leak_a_double_holder_and_a_double_free():
    manager = BlockManager(4)
    blocks = manager.allocate(2)
    for holders in ([], [blocks, blocks], [blocks, [3]]):
        with pytest.raises(AssertionError, match="block"):
            manager.check_integrity(holders)
    manager.free(blocks)
    with pytest.raises(ValueError, match="more often"):
        manager.free(blocks)
    with pytest.raises(ValueError, match="cannot be shared"):
        manager.share(blocks)
