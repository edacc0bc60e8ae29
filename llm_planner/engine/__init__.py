# SPDX-License-Identifier: Apache-2.0
"""Our torch engine: checkpoint, model, paged KV cache, prefix store, sampler; ``backend.TorchBackend`` is the door."""
