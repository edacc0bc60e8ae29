"""vLLM as the engine: its model, its KV cache and its steps; who runs in a step is our scheduler's decision."""
