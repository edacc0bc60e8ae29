# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the product's tests."""

from tests.backends.vllm.conftest import backend, model_dir, running_backend

__all__ = ["backend", "model_dir", "running_backend"]
