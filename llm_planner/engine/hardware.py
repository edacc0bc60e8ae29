# SPDX-License-Identifier: Apache-2.0
"""What this machine offers: device, data type, and how many KV blocks fit."""

import math
import os
import platform
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.linear import can_pack
from llm_planner.engine.model_config import ModelConfig

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_CUDA_SHARE = 0.8  # of what is free after the weights; the rest is for activations and gathered blocks
_HOST_SHARE = 0.25  # of what is available; robots and ROS live there too
_CONTEXTS_PER_SEQ = 4  # one that decodes, and three whose robots are at work


def default_num_blocks(
    block_bytes: int,
    block_size: int,
    max_model_len: int,
    max_num_seqs: int,
    device: torch.device,
    num_engines: int = 1,
) -> int:
    """Returns the number of blocks for the free memory of a device, at most ``_CONTEXTS_PER_SEQ`` full contexts each.

    Args:
        block_bytes: Of one block over all layers.
        block_size: Tokens per block.
        max_model_len: Tokens of a full context.
        max_num_seqs: Most sequences that decode together.
        device: Holds the blocks.
        num_engines: Those that share the memory of this host.

    Raises:
        PlannerError: OUT_OF_MEMORY if not even one full context of 256 tokens fits.
    """
    share = _CUDA_SHARE if device.type == "cuda" else _HOST_SHARE / num_engines
    budget_bytes = int(free_bytes(device) * share)
    num_blocks = min(budget_bytes // block_bytes, _CONTEXTS_PER_SEQ * max_num_seqs * -(-max_model_len // block_size))
    if num_blocks * block_size < min(256, max_model_len):
        raise PlannerError(
            ErrorCode.OUT_OF_MEMORY,
            f"{budget_bytes} bytes for the KV cache on {device} are too few; use a smaller model or dtype",
        )
    return num_blocks


def default_num_host_blocks(pool: torch.Tensor, num_engines: int = 1) -> int:
    """Returns how many blocks of offloaded KV host memory may hold: those of a share of what the cache leaves.

    Args:
        pool: All blocks of the cache; on a host its memory is not taken before it is used.
        num_engines: Those that share the memory of this host.
    """
    left_bytes = free_bytes(torch.device("cpu"))
    if pool.device.type == "cpu":
        left_bytes -= num_engines * pool.nbytes
    return max(0, int(left_bytes * _HOST_SHARE / num_engines)) * pool.shape[2] // pool.nbytes


def free_bytes(device: torch.device) -> int:
    """Returns memory that can still be had on a device (of this machine or, if less, of this control group)."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():  # counts what the page cache would give back
        fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
    return int(max(0, min(available, _left_bytes_of_group(Path("/sys/fs/cgroup")))))


def check_memory(model_dir: Path, num_bytes: int, device: torch.device) -> None:
    """Refuses weights that cannot fit, before they are read: a host that runs out of memory kills, and says nothing.

    Raises:
        PlannerError: OUT_OF_MEMORY.
    """
    free = free_bytes(device)
    if num_bytes > free:
        message = (
            f"the weights of {model_dir} take {num_bytes / 2**30:.1f} GiB, and {device} has {free / 2**30:.1f} GiB "
            "free; end other programs, or use a smaller model, or bfloat16 as engine.dtype"
        )
        raise PlannerError(ErrorCode.OUT_OF_MEMORY, message)


def _left_bytes_of_group(group: Path) -> float:
    """Returns what a control group's limit leaves, files in its page cache included; infinite without a limit.

    Args:
        group: Its directory, of version 2, or that of all controllers of version 1.
    """
    for directory, limit_name, used_name in (
        (group, "memory.max", "memory.current"),
        (group / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used, stat = (directory / name for name in (limit_name, used_name, "memory.stat"))
        if not (limit.is_file() and used.is_file()) or (text := limit.read_text(encoding="ascii").strip()) == "max":
            continue
        counted = dict(line.split() for line in stat.read_text(encoding="ascii").splitlines()) if stat.is_file() else {}
        reclaimable = int(counted.get("total_inactive_file", counted.get("inactive_file", 0)))
        return int(text) - int(used.read_text(encoding="ascii")) + reclaimable
    return math.inf


def select_device(name: str) -> torch.device:
    """Returns the device for ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        PlannerError: INVALID_CONFIG if there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.device {name!r} is not a device: {error}") from error
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type not in {"cpu", "cuda"} or (device.type == "cuda" and (device.index or 0) >= num_cuda):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.device {name!r} is not available here; use auto or cpu")
    return device


def upload(device: torch.device, *rows: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Returns each row of integers as a tensor (len(row),) on a device, brought there in one copy.

    To a GPU it goes from pinned memory and is not waited for, so the host can go on with what comes next: a copy from
    any other memory waits until the GPU has done all that it was given before.
    """
    packed = torch.tensor([*chain.from_iterable(rows)], dtype=torch.long, pin_memory=device.type == "cuda")
    return packed.to(device, non_blocking=True).split([len(row) for row in rows])


def device_name(device: torch.device, dtype: torch.dtype) -> str:
    """Returns what the speed of a model depends on, as an engine profile names it: processor, threads, data type."""
    kind = str(dtype).removeprefix("torch.")
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, {kind}"
    processor = _cpuinfo("model name") or platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads, {kind}"


def select_dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    """Returns the data type for ``auto`` or for a name.

    ``auto`` is the checkpoint's own on CUDA. On a CPU it is float32, but bfloat16 for a large checkpoint in bfloat16 if
    the processor multiplies it.

    Raises:
        PlannerError: INVALID_CONFIG if it is none of float32, bfloat16 and float16.
    """
    if name == "auto":
        is_own = device.type == "cuda" or (config.is_large and config.dtype == "bfloat16" and _multiplies_bfloat16())
        name = config.dtype if is_own else "float32"
    if name not in _DTYPES:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"engine.dtype {name!r} is none of auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _multiplies_bfloat16() -> bool:
    has_instructions = not {"avx512_bf16", "amx_bf16"}.isdisjoint(_cpuinfo("flags").split())
    return has_instructions and can_pack("cpu", torch.bfloat16)


def _cpuinfo(field: str) -> str:
    """Returns what Linux says of the first processor; an empty text elsewhere."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")
