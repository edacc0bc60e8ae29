# SPDX-License-Identifier: Apache-2.0
"""What a step computes, in kernels of our own where they are the fastest: on one thread of a CPU.

``kernels.cpp`` is compiled by ``make setup`` and by colcon. Each kernel is one call and one pass over memory; torch
takes ten calls for a norm, and copies the KV of decoding sequences before it attends. Where the library is not there,
on a GPU, and with several threads, torch computes the same (``operations.py``, ``decode_attention.py``, ``linear.py``).
"""

import ctypes
import hashlib
import logging
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

import llm_planner

_log = logging.getLogger(__name__)

LIBRARY = "libllm_planner_kernels.so"
_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
_LARGEST_HEAD, _PANEL, _PAIRS = 256, 64, 16  # kernels.cpp
_KINDS: dict[str, Any] = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_float}


class PagedRows(NamedTuple):
    """What rows of queries see of the cache.

    Attributes:
        tables: Block tables, one behind the other.
        offsets: Where the table of each row begins (num_rows,).
        starts: First token of its sequence that each row sees (num_rows,).
        ends: One behind the last (num_rows,).
    """

    tables: torch.Tensor
    offsets: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor


class Pages(NamedTuple):
    """What rows write and read of a layer of the cache.

    Attributes:
        slots: Where their keys and values go, places in the flattened pool (num_rows,).
        pools: (2, num_blocks, block_size, num_kv_heads, head_dim), as in ``KVCache``.
        rows: What each of them sees.
    """

    slots: torch.Tensor
    pools: torch.Tensor
    rows: PagedRows


class Kernels:
    """The kernels for one data type.

    Attributes:
        most_rows: So many rows are multiplied faster than by torch; ``sys.maxsize`` for any number of them.
    """

    def __init__(self, library: ctypes.CDLL, dtype: torch.dtype) -> None:
        def kernel(name: str, kinds: str) -> Callable[..., None]:
            function = library[f"{name}_{_NAMES[dtype]}"]
            function.argtypes, function.restype = [_KINDS[kind] for kind in kinds], None
            return function

        self._rms_norm = kernel("rms_norm", "pppiif")
        self._gated_silu = kernel("gated_silu", "ppii")
        self._rank = kernel("rank", "ppppii")
        self._rotate = kernel("rotate", "pppiiii")
        self._write = kernel("write", "pppppiiii")
        self._attend = kernel("attend", "ppppppppiiiiiif")
        self.most_rows = 0
        if dtype == torch.float32:
            self._multiply = kernel("multiply", "pppiiii")
            self._layer = kernel("layer", "ppppppppppppiii")
            register_bytes = library["register_bytes"]()
            self._has_large_registers = register_bytes == 64
            self.most_rows = sys.maxsize if register_bytes else 3  # as measured

    @property
    def multiplies_any_rows(self) -> bool:
        """Whether a weight is needed in no other layout than that of ``multiply``."""
        return self.most_rows == sys.maxsize

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """Returns ``x`` (..., size) divided by its root mean square, times ``weight`` (size,)."""
        x = x.contiguous()
        out, size = torch.empty_like(x), x.shape[-1]
        self._rms_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), x.numel() // size, size, eps)
        return out

    def gated_silu(self, gate_up: torch.Tensor) -> torch.Tensor:
        """Returns silu(gate) * up (num_rows, size) of both, side by side (num_rows, 2 * size)."""
        gate_up = gate_up.contiguous()
        num_rows, size = gate_up.shape[0], gate_up.shape[1] // 2
        out = gate_up.new_empty(num_rows, size)
        self._gated_silu(gate_up.data_ptr(), out.data_ptr(), num_rows, size)
        return out

    def multiply(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns the product (num_rows, out_size) of rows in float32 and a weight in bfloat16.

        A few rows wait for their weight, which is half as many bytes as in float32; nothing is rounded but the sums.

        Args:
            x: (num_rows, in_size)
            weight: What ``panels`` makes of it.
        """
        x, out_size = x.contiguous(), weight.shape[0] * _PANEL
        out = x.new_empty(x.shape[0], out_size)
        pointers = x.data_ptr(), weight.data_ptr(), out.data_ptr()
        self._multiply(*pointers, *x.shape, out_size, self._has_large_registers)
        return out

    def rank(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the largest of each row (num_rows, size), where it is first, and the log of the sum of exponentials.

        The largest is not a number where one of the row is none, or infinite.
        """
        logits = logits.contiguous()
        num_rows, size = logits.shape
        peaks, totals = torch.empty(2, num_rows)
        places = torch.empty(num_rows, dtype=torch.long)
        self._rank(*(tensor.data_ptr() for tensor in (logits, peaks, places, totals)), num_rows, size)
        return peaks, places, totals

    def rotate(self, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """As ``rope.rotate``, in place; the heads of a row lie one behind the other, the rows anywhere."""
        num_rows, num_heads, head_dim = heads.shape
        pointers = heads.data_ptr(), cos.data_ptr(), sin.data_ptr()
        self._rotate(*pointers, num_rows, heads.stride(0), num_heads, head_dim)
        return heads

    def write(self, pools: torch.Tensor, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Stores keys and values, each (num_rows, num_kv_heads, head_dim) with rows anywhere, at ``slots`` (num_rows,).

        Args:
            pools: (2, num_blocks, block_size, num_kv_heads, head_dim), as in ``KVCache``.
            slots: Places of tokens in the flattened pool.
            keys: Rotated.
            values: As they are.
        """
        num_rows, num_kv_heads, head_dim = keys.shape
        data = keys, values, slots, pools[0], pools[1]
        strides = keys.stride(0), values.stride(0)
        self._write(*(tensor.data_ptr() for tensor in data), num_rows, *strides, num_kv_heads * head_dim)

    def attend(self, queries: torch.Tensor, pools: torch.Tensor, rows: PagedRows, scale: float) -> torch.Tensor:
        """Returns the attended values of ``queries``, both (num_rows, num_kv_heads, group_size, head_dim).

        KV is read where it lies (PagedAttention; Kwon et al., SOSP 2023, section 4.3).

        Args:
            queries: Rows anywhere, the heads of a row one behind the other.
            pools: As for ``write``.
            rows: What each of them sees.
            scale: Of the scores.
        """
        num_rows, num_kv_heads, group_size, head_dim = queries.shape
        out = queries.new_empty(queries.shape)
        data = queries, pools[0], pools[1], out, *rows
        sizes = num_rows, queries.stride(0), num_kv_heads, group_size, head_dim, pools.shape[2]
        self._attend(*(tensor.data_ptr() for tensor in data), *sizes, scale)
        return out

    def layer(
        self,
        weights: int,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        room: torch.Tensor,
        pages: Pages,
    ) -> None:
        """Computes a whole decoder layer in place, in float32.

        Args:
            weights: Where the ``Layer`` of kernels.cpp is, which tells where its weights are.
            x: Hidden states (num_rows, hidden_size), one row behind the other.
            cos: Of their positions (num_rows, 1, head_dim).
            sin: As ``cos``.
            room: For what lies between.
            pages: Where their keys and values go, and what each of them sees.
        """
        slots, pools, rows = pages
        pointers = (tensor.data_ptr() for tensor in (x, cos, sin, room, slots, pools[0], pools[1], *rows))
        self._layer(weights, *pointers, x.shape[0], pools.shape[2], self._has_large_registers)


def load_kernels(device: torch.device, dtype: torch.dtype) -> Kernels | None:
    """Returns the kernels where they are the fastest; None elsewhere: torch knows several threads."""
    if device.type != "cpu" or torch.get_num_threads() > 1 or dtype not in _NAMES:
        return None
    return _load(dtype)


def can_attend(head_dim: int, softcap: float | None) -> bool:
    """Returns whether ``Kernels.attend`` computes the attention of a model."""
    return head_dim <= _LARGEST_HEAD and softcap is None


def panels(weight: torch.Tensor) -> torch.Tensor | None:
    """Returns a float32 weight (out_size, in_size) for ``Kernels.multiply``: (out_size / 64, in_size, 64), in bfloat16.

    Of 32 columns, the first and the seventeenth share a word of 32 bits, the second and the eighteenth the next one,
    and so on: a shift and a mask make two vectors of float32 of these words, which is faster than to convert them.

    None if a number of it is none of bfloat16, or it is no whole number of panels.
    """
    halved = weight.to(torch.bfloat16)
    if weight.shape[0] % _PANEL or not torch.equal(halved.to(weight.dtype), weight):
        return None
    columns = halved.unflatten(0, (-1, _PANEL)).transpose(1, 2)
    return columns.unflatten(2, (-1, 2, _PAIRS)).transpose(3, 4).flatten(2).contiguous()


def library_path() -> Path | None:
    """Returns where the compiled library is; None if it was not compiled for this installation."""
    paths = (Path(directory, LIBRARY) for directory in llm_planner.__path__)
    return next((path for path in paths if path.is_file()), None)


def library_problem() -> str | None:
    """Returns why the compiled library is of no use; None if it can be used."""
    path = library_path()
    if path is None:
        return "it was not compiled"
    try:
        for dtype in _NAMES:
            _open(path, dtype)
    except (AttributeError, OSError) as error:
        return f"{path}: {error}"
    return None


@cache
def _load(dtype: torch.dtype) -> Kernels | None:
    """Returns the kernels if they are there, and are those of this version."""
    path = library_path()
    if path is None:
        return None
    try:
        return _open(path, dtype)
    except (AttributeError, OSError) as error:
        _log.warning("%s is not used (%s): run `make setup` again; until then torch computes, slower", path, error)
        return None


def _open(path: Path, dtype: torch.dtype) -> Kernels:
    """Returns the kernels in a library; raises AttributeError or OSError if they are not those of this version."""
    library = ctypes.CDLL(str(path))
    _check_source(library)
    return Kernels(library, dtype)


def _check_source(library: ctypes.CDLL) -> None:
    """Raises OSError if a library was compiled from another source than the one in this checkout.

    An installed package has no source, but a library that was installed with it.
    """
    source_sha256 = library["source_sha256"]
    source_sha256.restype = ctypes.c_char_p
    source = Path(__file__).with_suffix(".cpp")
    if source.is_file() and hashlib.sha256(source.read_bytes()).hexdigest() != source_sha256().decode():
        raise OSError(f"it was compiled from another version of {source.name}")
