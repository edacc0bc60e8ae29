# SPDX-License-Identifier: Apache-2.0
import sys

import pytest
import torch

from llm_planner.engine import linear
from llm_planner.engine.kernels import load_kernels
from llm_planner.engine.linear import Linear, can_pack, make_linear

SIZES = (384, 352)  # above the least size that is packed


def draw(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


@pytest.fixture
def fresh_probe():
    can_pack.cache_clear()
    yield
    can_pack.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("keeps_plain", [False, True])
def test_every_number_of_rows_equals_the_plain_product(dtype, has_bias, keeps_plain):
    weight, bias = draw(*SIZES, dtype=dtype), draw(SIZES[0], dtype=dtype) if has_bias else None
    product = make_linear(weight, bias, keeps_plain=keeps_plain)
    for num_rows in (1, 2, 3, 4, 5, 16, 17, 32, 255, 256, 257, 600):
        x = draw(num_rows, SIZES[1], dtype=dtype)
        expected = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
        tolerance = 1e-3 if dtype is torch.float32 else 0.5  # of sums of 352 products
        torch.testing.assert_close(product(x).double(), expected, rtol=0.01, atol=tolerance)
        assert product(x).shape == (num_rows, SIZES[0])


@pytest.mark.skipif(not can_pack("cpu", torch.float32), reason="this torch cannot pack weights")
class TestLayouts:
    def test_a_large_model_holds_one_layout(self):
        product = make_linear(draw(*SIZES), keeps_plain=False)
        assert product.plain is None
        assert product.packed.is_mkldnn

    def test_a_small_model_holds_both(self):
        product = make_linear(draw(*SIZES), keeps_plain=True)
        assert product.plain.shape == SIZES[::-1]
        assert product.packed.is_mkldnn

    def test_a_small_weight_is_not_packed(self):
        assert make_linear(draw(64, 48), keeps_plain=False).packed is None


class TestPanels:
    """Of a weight whose numbers are those of a bfloat16."""

    @pytest.fixture(params=[False, True], ids=["large model", "small model"])
    def keeps_plain(self, request):
        return request.param

    @pytest.fixture
    def kernels(self):
        kernels = load_kernels(torch.device("cpu"), torch.float32)
        return kernels or pytest.skip("kernels were not compiled here")

    def test_where_they_serve_any_number_of_rows_they_are_all_that_is_held(self, kernels, keeps_plain, monkeypatch):
        monkeypatch.setattr(kernels, "most_rows", sys.maxsize)
        product = make_linear(draw(*SIZES, dtype=torch.bfloat16).float(), keeps_plain=keeps_plain)
        assert product.halved is not None
        assert product.plain is product.packed is None

    def test_else_they_are_held_beside_another_layout_where_memory_is_cheap(self, kernels, keeps_plain, monkeypatch):
        monkeypatch.setattr(kernels, "most_rows", 3)
        weight = draw(*SIZES, dtype=torch.bfloat16).float()
        product = make_linear(weight, keeps_plain=keeps_plain)
        assert (product.halved is not None) == keeps_plain
        assert product.packed is not None or product.plain is not None
        for num_rows in (2, 3, 4, 40):
            x = draw(num_rows, SIZES[1])
            torch.testing.assert_close(product(x), x.mm(weight.t()), rtol=0.01, atol=1e-3)


def test_a_shared_weight_that_is_not_packed_is_not_copied(monkeypatch):
    monkeypatch.setattr(linear, "can_pack", lambda device, dtype: False)
    weight = draw(*SIZES)
    product = make_linear(weight, keeps_plain=False, is_shared=True)
    assert product.plain.data_ptr() == weight.data_ptr()
    torch.testing.assert_close(product(draw(3, SIZES[1])), draw(3, SIZES[1]).mm(weight.t()))


def test_only_some_types_on_a_cpu_are_packed():
    assert not can_pack("cuda", torch.float32)
    assert not can_pack("cpu", torch.float16)


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, TypeError])
def test_a_torch_without_these_operators_multiplies_plainly(monkeypatch, fresh_probe, error):
    def refuse(*arguments):
        raise error("no such operator")

    monkeypatch.setattr(linear, "_multiply", refuse)
    assert not can_pack("cpu", torch.float32)
    product = make_linear(draw(*SIZES), keeps_plain=False)
    assert isinstance(product, Linear)
    assert product.packed is None
    assert product(draw(5, SIZES[1])).shape == (5, SIZES[0])


def test_operators_that_answer_something_else_are_not_used(monkeypatch, fresh_probe):
    monkeypatch.setattr(linear, "_multiply", lambda x, packed, bias: torch.zeros(x.shape[0], len(bias)))
    assert not can_pack("cpu", torch.float32)


def test_there_are_few_numbers_of_rows(monkeypatch):
    product = Linear(plain=None, packed=draw(*SIZES), bias=None)
    met = set()

    def multiply(x, packed, bias):
        met.add(x.shape[0])
        return x.mm(packed.t())

    monkeypatch.setattr(linear, "_multiply", multiply)
    for num_rows in range(1, 1200, 7):
        assert product(draw(num_rows, SIZES[1])).shape == (num_rows, SIZES[0])
    assert max(met) == 256
    assert len(met) < 20
