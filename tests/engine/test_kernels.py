# SPDX-License-Identifier: Apache-2.0
"""Our kernels compute what torch does, and are not used where they are not the fastest, or not there."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import rms_norm, silu

import llm_planner
from llm_planner.engine import kernels
from llm_planner.engine.kernels import PagedRows, can_attend, library_path, load_kernels, panels
from llm_planner.engine.linear import make_linear
from llm_planner.engine.rope import rotate

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.bfloat16)
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.bfloat16: {"rtol": 0.02, "atol": 0.02}}
EVERY_TYPE = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])


def has_gcc():
    if shutil.which("g++") is None:
        return False
    version = subprocess.run(["g++", "-dumpversion"], check=True, capture_output=True, text=True).stdout
    return int(version.split(".")[0]) >= 12


pytestmark = pytest.mark.skipif(library_path() is None and not has_gcc(), reason="kernels need GCC 12 or later")


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def equal(actual, expected):
    torch.testing.assert_close(actual, expected.to(actual.dtype), **TOLERANCE[actual.dtype])


def test_make_setup_has_compiled_them():
    assert library_path() is not None
    assert all(load_kernels(CPU, dtype) is not None for dtype in DTYPES)


@EVERY_TYPE
@pytest.mark.parametrize("shape", [(1, 256), (3, 1), (5, 48), (70, 257)])
def test_norm_and_activation(dtype, shape):
    ours, x, weight = load_kernels(CPU, dtype), draw(*shape, dtype=dtype), draw(shape[1], dtype=dtype, seed=1)
    equal(ours.rms_norm(x, weight, 1e-6), rms_norm(x.float(), (shape[1],), weight.float(), 1e-6))
    equal(ours.rms_norm(x[0], weight, 1e-6), rms_norm(x[0].float(), (shape[1],), weight.float(), 1e-6))
    gate, up = 20 * draw(*shape, dtype=dtype, seed=2), draw(*shape, dtype=dtype, seed=3)
    equal(ours.gated_silu(torch.cat((gate, up), dim=-1)), silu(gate.float()) * up.float())


@EVERY_TYPE
def test_rows_that_do_not_lie_one_behind_the_other(dtype):
    ours, wide, weight = load_kernels(CPU, dtype), draw(6, 80, dtype=dtype), draw(40, dtype=dtype, seed=1)
    for x in (wide[:, 10:50], wide[::2, :40], wide[:1, :40].expand(5, -1), wide.t()[:40].t()):
        equal(ours.rms_norm(x, weight, 1e-6), rms_norm(x.float(), (40,), weight.float(), 1e-6))
        equal(ours.gated_silu(x), silu(x[:, :20].float()) * x[:, 20:].float())
        if dtype == torch.float32:
            panel = draw(64, 40, dtype=torch.bfloat16).float()
            equal(ours.multiply(x, panels(panel)), x @ panel.t())


@EVERY_TYPE
@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (17, 4096), (2, 1003)])
def test_the_largest_of_a_row_and_the_sum_of_exponentials(dtype, shape):
    logits = 30 * draw(*shape, dtype=dtype)
    logits[-1, shape[1] // 2 :] = logits[-1].max()  # the first of them counts
    peaks, places, totals = load_kernels(CPU, dtype).rank(logits)
    assert torch.equal(peaks, logits.max(dim=-1).values.float())
    assert places.tolist() == [row.tolist().index(row.max()) for row in logits]
    torch.testing.assert_close(totals, logits.double().logsumexp(dim=-1).float(), rtol=1e-6, atol=1e-6)
    assert torch.equal(load_kernels(CPU, dtype).rank(logits.t().contiguous().t())[0], peaks)


@EVERY_TYPE
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_row_whose_largest_number_is_none_has_none(dtype, broken):
    logits = draw(3, 70, dtype=dtype)
    logits[1, 40] = broken
    logits[2] = -torch.inf
    peaks, _, _ = load_kernels(CPU, dtype).rank(logits)
    assert peaks.isfinite().tolist() == [True, broken == -torch.inf, False]


@EVERY_TYPE
@pytest.mark.parametrize("head_dim", [8, 64, 80])
def test_heads_are_rotated_where_they_lie_and_what_is_beside_them_stays(dtype, head_dim):
    heads, cos, sin = draw(7, 6, head_dim, dtype=dtype), *(draw(7, 1, head_dim, dtype=dtype, seed=s) for s in (1, 2))
    before = heads.clone()
    rotated = load_kernels(CPU, dtype).rotate(heads[:, :4], cos, sin)
    equal(rotated, rotate(before[:, :4].float(), cos.float(), sin.float()))
    assert rotated.data_ptr() == heads.data_ptr()
    assert torch.equal(heads[:, 4:], before[:, 4:])


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("sizes", [(64, 1), (192, 40), (1408, 256), (64, 40_000)])
def test_a_product_with_a_weight_that_is_a_bfloat16_rounds_nothing(has_bias, sizes):
    weight, bias = draw(*sizes, dtype=torch.bfloat16).float(), draw(sizes[0]) if has_bias else None
    product = make_linear(weight, bias, keeps_plain=True)
    assert product.halved is not None
    for num_rows in (*range(1, 35), 70, 256, 257):
        x = draw(num_rows, sizes[1], seed=num_rows)
        expected = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
        torch.testing.assert_close(product(x).double(), expected, rtol=1e-4, atol=1e-4 * sizes[1] ** 0.5)


def test_a_weight_that_would_lose_bits_is_not_halved():
    assert make_linear(draw(64, 40), keeps_plain=True).halved is None
    assert make_linear(draw(64, 40, dtype=torch.bfloat16), keeps_plain=True).halved is None  # it is one already
    assert make_linear(draw(48, 40, dtype=torch.bfloat16).float(), keeps_plain=True).halved is None  # no whole panels


@pytest.mark.parametrize("num_rows", [*range(1, 10), 70, 300])
def test_small_registers_compute_the_same(monkeypatch, num_rows):
    ours, weight, few = (
        load_kernels(CPU, torch.float32),
        draw(128, 40, dtype=torch.bfloat16).float(),
        draw(num_rows, 40),
    )
    monkeypatch.setattr(ours, "_has_large_registers", 0)
    torch.testing.assert_close(ours.multiply(few, panels(weight)), few @ weight.t())


def attend_plainly(queries, keys, values, scale):
    """Returns the attended values of one row; keys and values are (num_tokens, num_kv_heads, head_dim)."""
    scores = torch.einsum("hgd,thd->hgt", queries.double(), keys.double()) * scale
    return torch.einsum("hgt,thd->hgd", scores.softmax(dim=-1), values.double())


@given(
    rows=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 9)), min_size=1, max_size=6),
    sizes=st.sampled_from([(1, 1, 16), (2, 2, 64), (2, 4, 128), (3, 1, 80), (1, 2, 256)]),
    block_size=st.sampled_from([1, 4, 16]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_rows_attend_to_their_own_tokens_wherever_the_blocks_lie(rows, sizes, block_size, dtype, seed):
    ours, (num_kv_heads, group_size, head_dim) = load_kernels(CPU, dtype), sizes
    ends = [start + more + 1 for more, start in rows]
    num_blocks = [-(-end // block_size) for end in ends]
    free = torch.randperm(sum(num_blocks), generator=torch.Generator().manual_seed(seed)).tolist()
    pools = torch.full((2, len(free), block_size, num_kv_heads, head_dim), torch.nan, dtype=dtype)
    tables, offsets, wanted = [], [], []
    heads = draw(len(rows), num_kv_heads * (group_size + 2), head_dim, dtype=dtype, seed=seed)
    queries = heads[:, : num_kv_heads * group_size].unflatten(1, (num_kv_heads, -1))
    for row, (end, count, (_, start)) in enumerate(zip(ends, num_blocks, rows, strict=True)):
        offsets.append(len(tables))
        blocks = [free.pop() for _ in range(count)]
        tables += blocks
        slots = torch.tensor([blocks[i // block_size] * block_size + i % block_size for i in range(start, end)])
        new = draw(end - start, 2 * num_kv_heads + 1, head_dim, dtype=dtype, seed=seed + row)
        keys, values = new[:, :num_kv_heads], new[:, num_kv_heads:-1].contiguous()
        ours.write(pools, slots, keys, values)
        wanted.append(attend_plainly(queries[row], keys, values, 0.3))
    given = [torch.tensor(numbers) for numbers in (tables, offsets, [start for _, start in rows], ends)]
    equal(ours.attend(queries, pools, PagedRows(*given), 0.3), torch.stack(wanted))


@EVERY_TYPE
def test_what_is_not_a_number_is_noticed(dtype):
    ours = load_kernels(CPU, dtype)
    one = torch.ones(1, 8, dtype=dtype)
    broken = one.clone()
    broken[0, 3] = torch.nan
    assert ours.rms_norm(broken, one[0], 1e-6).isnan().all()
    assert ours.gated_silu(broken).isnan().any()
    pools = torch.ones(2, 1, 4, 1, 8, dtype=dtype)
    rows = PagedRows(*(torch.tensor([number]) for number in (0, 0, 0, 4)))
    for infected in (0, 1):
        now = pools.clone()
        now[infected, 0, 2, 0, 3] = torch.nan
        assert ours.attend(one.view(1, 1, 1, 8), now, rows, 1.0).isnan().any()
    huge = torch.full((1, 1, 1, 8), torch.inf, dtype=dtype)
    assert ours.attend(huge, pools, rows, 1.0).isnan().any()


class TestWhereTheyAreUsed:
    def test_on_one_thread_of_a_cpu(self, monkeypatch):
        assert load_kernels(torch.device("cuda"), torch.float32) is None
        assert load_kernels(CPU, torch.float16) is None
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        assert load_kernels(CPU, torch.float32) is None

    def test_for_heads_that_fit_without_a_soft_cap(self):
        assert can_attend(256, None)
        assert not can_attend(257, None)
        assert not can_attend(64, 50.0)


class TestALibraryThatWillNotDo:
    @pytest.fixture(autouse=True)
    def _fresh(self):
        kernels._load.cache_clear()
        yield
        kernels._load.cache_clear()

    def test_none_was_compiled(self, monkeypatch):
        monkeypatch.setattr(llm_planner, "__path__", ["/nowhere"])
        assert load_kernels(CPU, torch.float32) is None

    def test_it_is_no_library(self, monkeypatch, tmp_path, caplog):
        Path(tmp_path, kernels.LIBRARY).write_text("cut off")
        monkeypatch.setattr(llm_planner, "__path__", [str(tmp_path)])
        assert load_kernels(CPU, torch.float32) is None
        assert "is not used" in caplog.text

    def test_it_is_another_one(self, monkeypatch, caplog):
        class Other(ctypes.CDLL):
            def __getitem__(self, name):
                raise AttributeError(name)

        monkeypatch.setattr(ctypes, "CDLL", Other)
        assert load_kernels(CPU, torch.float32) is None
        assert "source_sha256" in caplog.text

    def test_it_was_compiled_from_another_source(self, monkeypatch, tmp_path, caplog):
        (tmp_path / "kernels.cpp").write_text("// with other arguments")
        monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
        assert load_kernels(CPU, torch.float32) is None
        assert "another version of kernels.cpp" in caplog.text

    def test_it_was_installed_without_its_source(self, monkeypatch, tmp_path):
        monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
        assert load_kernels(CPU, torch.float32) is not None
