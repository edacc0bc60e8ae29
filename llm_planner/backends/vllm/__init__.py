# SPDX-License-Identifier: Apache-2.0
"""vLLM as the engine: its model, its KV cache and its steps; our scheduler decides which requests run in a step."""
