# SPDX-License-Identifier: Apache-2.0
"""Checks of the model, and of the GPU."""

from collections.abc import Iterator
from pathlib import Path

from llm_planner.core.errors import ErrorCode
from llm_planner.doctor.finding import Finding, Level
from llm_planner.doctor.probe import Answer, probe

NVIDIA = Path("/dev/nvidiactl")
_FIXES = {
    ErrorCode.MODEL_NOT_FOUND: "give --model the name of a bundled model or a Hugging Face checkpoint directory",
    ErrorCode.CHECKPOINT_INVALID: "fetch the checkpoint again",
    ErrorCode.TOKENIZER_MISSING: "fetch tokenizer.json of the checkpoint too",
    ErrorCode.OUT_OF_MEMORY: "end other programs, or bound the KV cache: engine.num_kv_blocks",
}


def model_and_gpu(model: str, how: str, timeout_s: float) -> Iterator[Finding]:
    """Yields how the model is, and what torch sees; asked of a process of its own.

    Args:
        model: Name of a bundled model, or a checkpoint directory.
        how: ``load``, ``check`` or ``auto`` (``doctor.model_probe``).
        timeout_s: Until the process is killed.
    """
    answer = probe("llm_planner.doctor.model_probe", model, how, timeout_s=timeout_s)
    if answer.error:
        yield Finding(check="model", level=Level.ERROR, text=answer.error, fix=answer.fix)
        return
    yield _model(model, answer)
    if "profile" in answer.values:
        yield _profile(answer)
    yield _gpu(answer, has_driver=NVIDIA.exists())


def _model(model: str, answer: Answer) -> Finding:
    values = answer.values
    if code := values.get("error_code"):
        fix = _FIXES.get(ErrorCode(code), "see the message; docs/first_model.md says what a checkpoint needs")
        text = f"{values['error_msg']} [{ErrorCode(code).name} {code}]"
        return Finding(check="model", level=Level.ERROR, text=text, fix=fix)
    size = f"{values['size_bytes'] / 1e6:.0f} MB"
    done = f"loads in {values['load_s']:.1f} s" if values["is_loaded"] else "is whole; not loaded (--load does)"
    return Finding(check="model", text=f"{model}, {size}: {done}")


def _profile(answer: Answer) -> Finding:
    profile = answer.values["profile"]
    if profile:
        return Finding(check="profile", text=f"time budgets count on {profile}")
    text = "this engine was not measured yet; the planner does so on its first start, within seconds"
    return Finding(check="profile", text=text)


def _gpu(answer: Answer, *, has_driver: bool) -> Finding:
    torch, cuda, devices = answer.values["torch"], answer.values["cuda_build"], answer.values["devices"]
    if devices:
        return Finding(check="gpu", text=f"{', '.join(devices)}; torch {torch}")
    if has_driver and cuda is None:
        text = f"there is a GPU, but torch {torch} was built without CUDA"
        fix = "install the CUDA build of torch: docs/install.md, Which torch"
        return Finding(check="gpu", level=Level.WARNING, text=text, fix=fix)
    if has_driver:
        text = f"there is a GPU that torch {torch} (CUDA {cuda}) cannot use"
        fix = "compare the driver (`nvidia-smi`) with that CUDA version; update the driver"
        return Finding(check="gpu", level=Level.WARNING, text=text, fix=fix)
    text = f"none: the model runs on the processor; torch {torch}"
    problem = answer.values["kernels_problem"]
    if problem is None:
        return Finding(check="gpu", text=text)
    if answer.values["has_kernels"]:
        text += f"; the engine's own kernels are not used: {problem}"
        fix = "have them compiled again: `make setup`, pip and colcon do it (docs/install.md)"
        return Finding(check="gpu", level=Level.WARNING, text=text, fix=fix)
    text += ", without the engine's own kernels, with which a small model writes two to three times as fast"
    fix = "have GCC 12 or later compile them: `make setup`, pip and colcon do it (docs/install.md)"
    return Finding(check="gpu", level=Level.WARNING, text=text, fix=fix)
