# SPDX-License-Identifier: Apache-2.0
"""An engine profile from a throughput model: what steps of a server that was never profiled would take."""

from collections.abc import Callable

import numpy as np

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.profile import DecodeCost, EngineProfile, MoveCost, PrefillCost
from llm_planner.prediction.throughput.catalogue import PREFILL_EFFICIENCY, SINGLE_SEQUENCE, Catalogue
from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.kernel_model import KernelModel
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner.robots.timing import Parameter, Source

LENGTHS = (128, 256, 512, 1024)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)
BLOCK_SIZE = 16
MOST_BLOCKS = 1_000_000
MAX_MODEL_LEN = 4096
HOST_GB_S = 16.0
"""Between accelerator and host."""

End = Callable[[Estimate], float]
"""Which end of an estimate counts: ``middle``, ``slow`` or ``fast``."""


def middle(estimate: Estimate) -> float:
    """Returns the expected throughput."""
    return estimate.tokens_per_s


def slow(estimate: Estimate) -> float:
    """Returns the lower end of the 90 % interval."""
    return estimate.low_tokens_per_s


def fast(estimate: Estimate) -> float:
    """Returns the upper end."""
    return estimate.high_tokens_per_s


def server_profile(model: KernelModel, combination: Combination, end: End = middle) -> EngineProfile:
    """Returns what steps take so that whole runs take what the throughput model says.

    A run of ``B`` sequences with prompts and responses of ``L`` tokens takes ``L (base + per_sequence (B - 1) +
    per_kv_token 1.5 L B)`` for decoding and the prompts' share, which is taken from the peak rate; the three
    coefficients are fitted by non-negative least squares of relative errors.

    Args:
        model: Predicts throughput.
        combination: The server.
        end: ``slow`` and ``fast`` give the ends of an interval.

    Raises:
        PlannerError: INVALID_CONFIG for names that exist nowhere, if the framework's rows are of one sequence, or if
            the model does not fit the device.
    """
    from scipy.optimize import nnls  # heavy, and every planner imports this module

    model.require_known(combination)
    if combination.framework in SINGLE_SEQUENCE:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"the table's rows of {combination.framework} are of one sequence at a time and say nothing of a fleet; "
            "choose another framework",
        )
    catalogue = model.encoder.catalogue
    prompt_token_s = catalogue.roofline(combination).token_s / PREFILL_EFFICIENCY
    points = [(length, batch) for length in LENGTHS for batch in BATCH_SIZES]
    estimates = model.estimates([(combination, Workload(length, length, batch)) for length, batch in points])
    totals_s = np.array([2 * n * b / end(e) for (n, b), e in zip(points, estimates, strict=True)])
    prompts_s = np.minimum(np.array([n * b * prompt_token_s for n, b in points]), 0.5 * totals_s)
    design = np.array([(1.0, b - 1.0, 1.5 * n * b) for n, b in points])
    steps_s = (totals_s - prompts_s) / np.array([n for n, _ in points])
    (base_s, per_sequence_s, per_kv_token_s), _ = nnls(design / steps_s[:, None], np.ones(len(points)))
    size = catalogue.model(combination.model)
    move = MoveCost(constant_s=_assumed(0.0), per_token_s=_assumed(size.kv_bytes_per_token / (1e9 * HOST_GB_S)))
    return EngineProfile(
        name="capacity",
        description=f"{combination}, from a throughput model",
        model=combination.model,
        num_kv_blocks=num_kv_blocks(catalogue, combination),
        block_size=BLOCK_SIZE,
        max_model_len=MAX_MODEL_LEN,
        # No constant: the weights are read once per step, for its prompts and its decodes together.
        prefill=PrefillCost(a_s_per_token2=_assumed(0.0), b_s_per_token=_assumed(prompt_token_s), c_s=_assumed(0.0)),
        decode=DecodeCost(
            base_s=_assumed(max(base_s, 1e-6)),
            per_sequence_s=_assumed(per_sequence_s),
            per_kv_token_s=_assumed(per_kv_token_s),
        ),
        resume=move,
        offload=move,
    )


def num_kv_blocks(catalogue: Catalogue, combination: Combination) -> int:
    """Returns how many blocks of the KV cache fit with the weights.

    Raises:
        PlannerError: INVALID_CONFIG if the weights alone do not fit.
    """
    roofline = catalogue.roofline(combination)
    size = roofline.model
    if roofline.free_bytes <= 0:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"{combination.model} does not fit on {combination.num_devices} x {combination.hardware}: its weights "
            f"take {2 * size.parameters_b:.0f} GB; give more --devices",
        )
    return max(1, min(MOST_BLOCKS, int(roofline.free_bytes / (size.kv_bytes_per_token * BLOCK_SIZE))))


def num_at_once(catalogue: Catalogue, combination: Combination, workload: Workload) -> int:
    """Returns how many sequences of a workload memory holds at once.

    Raises:
        PlannerError: INVALID_CONFIG if it does not hold even one.
    """
    length = workload.input_tokens + workload.output_tokens
    room = num_kv_blocks(catalogue, combination) * BLOCK_SIZE
    if length > room:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"a sequence of {workload.input_tokens} + {workload.output_tokens} tokens does not fit on "
            f"{combination.num_devices} x {combination.hardware}: next to the weights of {combination.model} there is "
            f"room for {room} tokens; give shorter ones or more --devices",
        )
    return room // length


def _assumed(value: float) -> Parameter:
    return Parameter(value=float(value), source=Source.ASSUMED)
