"""Our torch engine: checkpoint, model, paged KV cache, prefix store, sampler; ``backend.TorchBackend`` is the door."""
