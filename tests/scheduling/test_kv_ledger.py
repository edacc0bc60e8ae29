# SPDX-License-Identifier: Apache-2.0
"""The ledger against a count by hand."""

from llm_planner.scheduling.kv_ledger import KVLedger


def test_a_life_of_a_generation():
    ledger = KVLedger(num_kv_blocks=10, block_size=4)
    ledger.pin_prefix("system", 8)
    ledger.pin_prefix("system", 8)  # again is free
    assert ledger.free_blocks == ledger.capacity_blocks == 8
    ledger.open("r", kv_len=14, num_cached_tokens=8)  # 4 blocks, 2 of them shared
    assert (ledger.free_blocks, ledger.available_blocks) == (8, 6)
    ledger.grow("r", 11)
    assert (ledger.free_blocks, ledger.available_blocks) == (7, 6)
    ledger.grow("r", 17)
    assert (ledger.free_blocks, ledger.available_blocks) == (5, 5)
    assert ledger.missing_blocks("r", 20) == 0
    assert ledger.missing_blocks("r", 21) == 1
    ledger.offload("r")
    assert (ledger.free_blocks, ledger.available_blocks) == (8, 8)
    assert ledger.missing_blocks("r", 17) == 3
    ledger.restore("r")
    assert ledger.free_blocks == 5
    ledger.close("r")
    ledger.close("r")  # unknown ids are ignored
    assert ledger.free_blocks == ledger.available_blocks == 8
    ledger.check_integrity()


def test_sizes_around_a_block():
    ledger = KVLedger(num_kv_blocks=10, block_size=4)
    assert [ledger.blocks_for(n) for n in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]


def test_an_eviction_gives_blocks_back_and_takes_promises_back():
    ledger = KVLedger(num_kv_blocks=20, block_size=4)
    ledger.open("r", kv_len=44, num_cached_tokens=8)  # reserved 9 private blocks for prompt and output
    ledger.grow("r", 40)
    assert (ledger.free_blocks, ledger.available_blocks) == (12, 11)
    ledger.evict("r", kv_len=13, reserved_kv_len=17)  # 4 blocks, 2 of them shared; 5 reserved
    assert (ledger.free_blocks, ledger.available_blocks) == (18, 17)
    assert ledger.missing_blocks("r", 20) == 0
    ledger.grow("r", 14)
    assert ledger.free_blocks == 18
    ledger.check_integrity()
