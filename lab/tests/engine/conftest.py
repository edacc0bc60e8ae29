# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the product's tests."""

from tests.engine.conftest import _one_thread, backend, llama_dir

__all__ = ["_one_thread", "backend", "llama_dir"]
