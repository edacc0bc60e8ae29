"""How many KV blocks fit."""

import os
from pathlib import Path

import torch

from llm_planner.core.errors import ErrorCode, PlannerError

_CUDA_SHARE = 0.8  # of what is free after the weights; the rest is for activations and gathered blocks
_HOST_SHARE = 0.25  # of what is available; robots, ROS and offloaded KV live there too
_CONTEXTS = 64  # nobody needs more full contexts than this by default


def default_num_blocks(block_bytes: int, block_size: int, max_model_len: int, device: torch.device) -> int:
    """Returns the number of blocks for the free memory of a device, at most ``_CONTEXTS`` full contexts.

    Raises:
        PlannerError: OUT_OF_MEMORY if not even one full context of 256 tokens fits.
    """
    budget_bytes = int(free_bytes(device) * (_CUDA_SHARE if device.type == "cuda" else _HOST_SHARE))
    num_blocks = min(budget_bytes // block_bytes, _CONTEXTS * -(-max_model_len // block_size))
    if num_blocks * block_size < min(256, max_model_len):
        raise PlannerError(
            ErrorCode.OUT_OF_MEMORY,
            f"{budget_bytes} bytes for the KV cache on {device} are too few; use a smaller model or dtype",
        )
    return num_blocks


def free_bytes(device: torch.device) -> int:
    """Returns memory that can still be had on a device (of this machine or, if less, of this control group)."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():  # counts what the page cache would give back
        fields = dict(line.split(":", 1) for line in meminfo.read_text(encoding="ascii").splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and (text := limit.read_text(encoding="ascii").strip()) != "max":
        available = min(available, int(text) - int(used.read_text(encoding="ascii")))
    return max(0, available)
