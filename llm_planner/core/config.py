"""Configuration of a planner: frozen, validated once at the edge (``assembly.load_config``)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one step and the order of service.

    Attributes:
        policy: Name of a policy in ``scheduling.policies``.
        max_num_seqs: Most generations that decode together.
        max_num_batched_tokens: Most tokens computed in one step (chunked prefill).
        network_latency_s: One-way delay between planner and robot, counted when a generation is resumed.
        resume_margin_s: How much earlier than needed a suspended generation is resumed.
        silence_timeout_s: A robot that reports nothing for this long beyond its expected time is silent.
    """

    policy: str = "fcfs_segment"
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 2048
    network_latency_s: float = 0.008
    resume_margin_s: float = 0.05
    silence_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The model and the memory it gets.

    Attributes:
        model: A Hugging Face checkpoint directory, or the name of a bundled model.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        num_kv_blocks: Blocks of the KV cache; 0 lets the engine size it from the memory that is free.
        block_size: Tokens per block.
        num_threads: CPU threads of the engine; 0 leaves the library's default.
    """

    model: str = "planner-small"
    device: str = "auto"
    dtype: str = "auto"
    num_kv_blocks: int = 0
    block_size: int = 16
    num_threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """Everything that a planner is assembled from.

    Attributes:
        backend: ``torch``.
        robot_models: Extra directories with robot models, searched before the bundled ones.
        max_instruction_bytes: Longest instruction or scene that is accepted, UTF-8.
        max_queued: Most goals that may be unfinished at once; more are refused.
        temperature: 0 is greedy.
        seed: Seed of sampling.
    """

    backend: str = "torch"
    robot_models: tuple[str, ...] = ()
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    max_instruction_bytes: int = 4096
    max_scene_bytes: int = 65536
    max_queued: int = 256
    temperature: float = 0.0
    seed: int = 0
