# SPDX-License-Identifier: Apache-2.0
"""Linear layers stored in 4 bits, as GPTQ (arXiv 2210.17323) and AWQ (arXiv 2306.00978) write them, made whole again.

A weight is ``scale (q - zero)``, with one scale and one zero point per output and group of inputs. Eight numbers of 4
bits share an int32, the first in its lowest bits: of GPTQ neighbours along the inputs, of AWQ neighbours along the
outputs in an order of its own. The computation stays that of whole weights.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.model_config import Quantization

PACKED = ("qweight", "qzeros", "g_idx")
"""The tensors of integers that stand in place of a weight, next to ``scales``."""
_PER_WORD = 8
_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)  # where the outputs of a word are in it


def stored_shapes(name: str, shape: tuple[int, ...], quantization: Quantization) -> dict[str, tuple[int, ...]]:
    """Returns name and shape of the tensors that hold the weight (out_size, in_size) of a linear layer."""
    out_size, in_size = shape
    num_groups = -(-in_size // (quantization.group_size or in_size))
    shapes: dict[str, tuple[int, ...]] = {
        f"{name}.qzeros": (num_groups, out_size // _PER_WORD),
        f"{name}.scales": (num_groups, out_size),
    }
    if quantization.method == "awq":
        return shapes | {f"{name}.qweight": (in_size, out_size // _PER_WORD)}
    return shapes | {f"{name}.qweight": (in_size // _PER_WORD, out_size), f"{name}.g_idx": (in_size,)}


def dequantize(
    name: str, quantization: Quantization, read: Callable[[str], torch.Tensor], source: Path
) -> torch.Tensor:
    """Returns the weight (out_size, in_size) of a linear layer in float32.

    Raises:
        PlannerError: CHECKPOINT_INVALID if an input belongs to a group that is not there.
    """
    qweight, zeros, scales = read(f"{name}.qweight"), _unpack(read(f"{name}.qzeros")), read(f"{name}.scales").float()
    if quantization.method == "awq":
        numbers = _unpack(qweight)[..., _AWQ_PLACES].flatten(1)
        zeros = zeros[..., _AWQ_PLACES]
        groups = torch.arange(len(numbers)) // (quantization.group_size or len(numbers))
    else:
        numbers = _unpack(qweight).transpose(1, 2).flatten(0, 1)
        groups = read(f"{name}.g_idx").long()
    if not 0 <= int(groups.min()) <= int(groups.max()) < len(scales):
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{source}: {name}.g_idx names a group that is not there")
    shifts = (zeros.flatten(1) + quantization.zero_offset).float()
    return ((numbers - shifts[groups]) * scales[groups]).t()


def _unpack(words: torch.Tensor) -> torch.Tensor:
    """Returns the numbers (num_rows, num_columns, 8) of words (num_rows, num_columns)."""
    return (words[..., None] >> torch.arange(0, 32, 32 // _PER_WORD, dtype=torch.int32)) & 15
