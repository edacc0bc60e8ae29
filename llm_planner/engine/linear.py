# SPDX-License-Identifier: Apache-2.0
"""Matrix products with weights that are laid out once: by our kernels or oneDNN on a CPU, plain elsewhere.

``x.mm(weight)`` packs the weight again at every call with two rows or more. A few rows wait for the weight to be read:
where all its numbers are those of a bfloat16, as in most checkpoints, half of the bytes say the same.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch.nn.functional import pad

from llm_planner.engine.kernels import Kernels, load_kernels, panels

_LEAST_PACKED = 1 << 17  # elements of a weight; below, the call costs more than the packing saves
_FEW_ROWS, _LEAST_ROWS = 16, 4  # up to the first number, rows are multiples of the second: fewer than four take as long
_MOST_ROWS, _ROWS = 256, 16  # up to the first number at a time, multiples of the second
_PACKED_ROWS = range(3, 65)  # with other numbers a plain product is as fast while the weight fits into the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """``x W + b``; a weight has one layout, or several where memory is cheap.

    Attributes:
        plain: (in_size, out_size), which for one row on a CPU is faster than its transpose.
        packed: Opaque, for ``torch.ops.mkldnn``.
        halved: The same numbers in bfloat16, for ``kernels`` (``kernels.panels``).
        bias: (out_size,)
        kernels: What multiplies ``halved``.
    """

    plain: torch.Tensor | None
    packed: torch.Tensor | None
    halved: torch.Tensor | None = None
    bias: torch.Tensor | None
    kernels: Kernels | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (num_rows, out_size) of ``x`` (num_rows, in_size)."""
        num_rows = x.shape[0]
        if self.kernels is not None and self.halved is not None and num_rows <= self.kernels.most_rows:
            product = self.kernels.multiply(x, self.halved)
            return product if self.bias is None else product.add_(self.bias)
        if self.plain is not None and (self.packed is None or num_rows not in _PACKED_ROWS):
            return x.mm(self.plain) if self.bias is None else torch.addmm(self.bias, x, self.plain)
        if num_rows <= _MOST_ROWS:
            return self._multiply(x)
        return torch.cat([self._multiply(part) for part in x.split(_MOST_ROWS)])

    def _multiply(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the product with the packed weight.

        torch keeps buffers as large as the product for every number of rows that it has met, so there are few of them.
        """
        num_rows = x.shape[0]
        missing = -num_rows % (_LEAST_ROWS if num_rows <= _FEW_ROWS else _ROWS)
        if not missing:
            return _multiply(x, self.packed, self.bias)
        return _multiply(pad(x, (0, 0, 0, missing)), self.packed, self.bias)[:num_rows]


def make_linear(
    weight: torch.Tensor, bias: torch.Tensor | None = None, *, keeps_plain: bool, is_shared: bool = False
) -> Linear:
    """Returns the product with a weight.

    Args:
        weight: (out_size, in_size)
        bias: (out_size,)
        keeps_plain: Whether memory is cheap: the weight is also held in panels, where there are kernels, or else as it
            is, for products with one row or two, or with many. Panels that serve any number of rows are
            held alone.
        is_shared: Whether the weight is held elsewhere too, as an embedding: then it is not copied without need.
    """
    kernels, halved = load_kernels(weight.device, weight.dtype), None
    if kernels is not None and kernels.most_rows and (keeps_plain or kernels.multiplies_any_rows):
        halved = panels(weight)
        if halved is not None and kernels.multiplies_any_rows:
            return Linear(plain=None, packed=None, halved=halved, bias=bias, kernels=kernels)
    packed = _pack(weight) if weight.numel() >= _LEAST_PACKED and can_pack(weight.device.type, weight.dtype) else None
    if packed is not None and (halved is not None or not keeps_plain):
        return Linear(plain=None, packed=packed, halved=halved, bias=bias, kernels=kernels)
    plain = weight.t() if is_shared and not keeps_plain else weight.t().contiguous()
    return Linear(plain=plain, packed=packed, halved=halved, bias=bias, kernels=kernels)


@cache
def can_pack(device_type: str, dtype: torch.dtype) -> bool:
    """Returns whether weights can be packed here; tried out, for the operators are private to torch."""
    if device_type != "cpu" or dtype not in {torch.float32, torch.bfloat16}:
        return False
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(size, generator=generator).to(dtype) for size in ((48, 32), (48,), (5, 32)))
    try:
        product = _multiply(x, _pack(weight), bias)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(product.float(), torch.addmm(bias, x, weight.t()).float(), rtol=0.02, atol=0.02)


def _pack(weight: torch.Tensor) -> torch.Tensor:
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)  # noqa: SLF001 (see can_pack)
    return packed


def _multiply(x: torch.Tensor, packed: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001 (see can_pack)
        x, packed, bias, "none", [], ""
    )
    return product
