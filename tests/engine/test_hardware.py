# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import pytest
import torch

from llm_planner.engine import hardware
from llm_planner.engine.hardware import select_dtype, upload
from llm_planner.engine.model_config import read_model_config

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def small(llama_dir):
    return replace(read_model_config(llama_dir), dtype="bfloat16")


@pytest.fixture
def large(small):
    return replace(small, vocab_size=50_000, hidden_size=1024)


@pytest.fixture(params=["avx512f avx512_bf16 fma", "amx_tile amx_bf16"])
def _fast(request, monkeypatch):
    monkeypatch.setattr(hardware, "_cpuinfo", lambda field: request.param)
    monkeypatch.setattr(hardware, "can_pack", lambda device, dtype: True)


def test_what_is_large(small, large):
    assert not small.is_large
    assert large.is_large


@pytest.mark.usefixtures("_fast")
def test_a_large_checkpoint_in_bfloat16_stays_so_where_the_processor_multiplies_it(small, large):
    assert select_dtype("auto", large, CPU) is torch.bfloat16
    assert select_dtype("auto", small, CPU) is torch.float32
    assert select_dtype("auto", replace(large, dtype="float32"), CPU) is torch.float32
    assert select_dtype("auto", replace(large, dtype="float16"), CPU) is torch.float32


def test_a_processor_without_these_instructions_computes_in_float32(large, monkeypatch):
    monkeypatch.setattr(hardware, "_cpuinfo", lambda field: "avx512f avx2 fma")
    assert select_dtype("auto", large, CPU) is torch.float32


@pytest.mark.usefixtures("_fast")
def test_a_torch_that_cannot_pack_computes_in_float32(large, monkeypatch):
    monkeypatch.setattr(hardware, "can_pack", lambda device, dtype: False)
    assert select_dtype("auto", large, CPU) is torch.float32


def test_on_cuda_the_checkpoint_decides(small, large):
    assert select_dtype("auto", small, CUDA) is torch.bfloat16
    assert select_dtype("auto", replace(large, dtype="float16"), CUDA) is torch.float16


def test_a_name_is_taken_as_it_is(large):
    assert select_dtype("float16", large, CPU) is torch.float16


@pytest.mark.parametrize("rows", [([3, 1],), ([7], range(5), (), [1 << 40]), ((), ())])
def test_rows_of_integers_are_the_same_in_one_copy(rows):
    uploaded = upload(CPU, *rows)
    assert [row.tolist() for row in uploaded] == [list(row) for row in rows]
    assert {row.dtype for row in uploaded} == {torch.long}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, math.inf),
        ({"memory.max": "max\n", "memory.current": "5"}, math.inf),
        ({"memory.max": "100\n", "memory.current": "90\n"}, 10),
        ({"memory.max": "100", "memory.current": "90", "memory.stat": "anon 20\ninactive_file 60\n"}, 70),
        (
            {
                "memory/memory.limit_in_bytes": "100",
                "memory/memory.usage_in_bytes": "90",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
            },
            60,
        ),
    ],
)
def test_what_a_control_group_leaves(tmp_path, files, left):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert hardware._left_bytes_of_group(tmp_path) == left
