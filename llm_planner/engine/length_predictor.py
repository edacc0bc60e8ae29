# SPDX-License-Identifier: Apache-2.0
"""A small decoder with a classification head that predicts how long a model's response will be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn.functional import linear, scaled_dot_product_attention

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.hardware import select_device, select_dtype
from llm_planner.engine.length_config import HEAD_NAME, load_length_config
from llm_planner.engine.model import Model, Wanted
from llm_planner.engine.model_config import read_model_config
from llm_planner.prediction.length import LengthDistribution
from llm_planner.prediction.prompt_compression import compress_prompt


class TorchLengthPredictor:
    """Implements ``prediction.length.LengthPredictor`` (RLP of TimeBill, section 4.1, Fig. 3).

    Args:
        directory: What ``llm-planner train-length-predictor`` wrote.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: ``auto``, float32, bfloat16 or float16.

    Raises:
        PlannerError: MODEL_NOT_FOUND, CHECKPOINT_INVALID or UNSUPPORTED_ARCHITECTURE if its files cannot be used.
    """

    def __init__(self, directory: Path, *, device: str = "auto", dtype: str = "auto") -> None:
        self.config = load_length_config(directory)
        shape = read_model_config(directory)
        if not shape.has_plain_attention:
            fields = "sliding_window, attn_logit_softcapping or query_pre_attn_scalar"
            message = f"{directory}: {fields} is not supported in a length predictor"
            raise PlannerError(ErrorCode.UNSUPPORTED_ARCHITECTURE, message)
        self._vocab_size = shape.vocab_size
        self._device = select_device(device)
        data_type = select_dtype(dtype, shape, self._device)
        self._weight, self._bias = _load_head(
            directory / HEAD_NAME, (self.config.num_buckets, shape.hidden_size), self._device
        )
        self._body = Model(shape, Checkpoint(directory, shape), data_type, self._device)
        self._max_input_tokens = min(self.config.max_input_tokens, shape.max_model_len)
        self._calibration = self.config.calibration

    def predict(self, prompt_token_ids: Sequence[int]) -> LengthDistribution:
        """Returns the distribution of the response's length; the prompt is in the target model's tokens.

        Raises:
            PlannerError: ENGINE_FAILED if the prompt is empty or a token is outside the vocabulary.
        """
        if not prompt_token_ids or not 0 <= min(prompt_token_ids) <= max(prompt_token_ids) < self._vocab_size:
            raise PlannerError(ErrorCode.ENGINE_FAILED, "the prompt is empty or has tokens of another vocabulary")
        with torch.inference_mode():
            probabilities = self._logits(
                compress_prompt(prompt_token_ids, self._max_input_tokens, self.config.head_input_tokens)
            ).softmax(-1)
        calibration = self._calibration.of(len(prompt_token_ids))
        return LengthDistribution.from_buckets(
            probabilities.cpu().numpy(), self.config.bucket_tokens, calibration=calibration
        )

    def _logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Returns the scores of the buckets (num_buckets,) in double precision."""
        attend = _LastTokenAttention(self._body.config.num_layers - 1)
        last = Wanted(slice(len(token_ids) - 1, len(token_ids)))
        hidden = self._body.forward(token_ids, range(len(token_ids)), attend, wanted=last)
        return linear(self._body.normed(hidden[0]).float(), self._weight, self._bias).double()


@dataclass(frozen=True, slots=True)
class _LastTokenAttention:
    """Implements ``engine.attention.Attention`` for a whole prompt, without a cache.

    In the last layer the last token's answer stands for all: no other is looked at.
    """

    last_layer: int

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        is_last = layer == self.last_layer
        attended = scaled_dot_product_attention(
            (queries[-1:] if is_last else queries).transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            is_causal=not is_last,
            enable_gqa=True,
        )
        return attended[0].transpose(0, 1).flatten(1).expand(len(queries), -1)


def _load_head(path: Path, shape: tuple[int, int], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns weight (num_buckets, hidden_size) and bias (num_buckets,) in float32."""
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path} is missing, truncated or corrupt: {error}") from error
    expected = {"weight": shape, "bias": shape[:1]}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected or not all(math.isfinite(tensor.float().sum()) for tensor in tensors.values()):
        raise PlannerError(
            ErrorCode.CHECKPOINT_INVALID, f"{path} holds {found} instead of finite numbers of shape {expected}"
        )
    return tuple(tensors[name].to(device=device, dtype=torch.float32) for name in ("weight", "bias"))  # type: ignore[return-value]
