# SPDX-License-Identifier: Apache-2.0
"""Configuration of a planner: frozen dataclasses whose fields carry their description and range.

The same metadata serves the YAML file (validated in ``configuration``), the ROS parameters and ``--help``.
"""

from dataclasses import dataclass, field
from typing import Any


def setting(  # the return type is Any because a dataclass field stands in for a value of the annotated type
    default: object,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    one_of: tuple[str, ...] = (),
) -> Any:
    """Returns a dataclass field with a default, a description, and an inclusive range or the names that it may have."""
    limits = {"minimum": minimum, "maximum": maximum, "one_of": one_of}
    return field(default=default, metadata={"description": description, **limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one step and the order of service."""

    policy: str = setting("tardiness", "Name of a scheduling policy.")
    max_num_seqs: int = setting(16, "Most generations that decode together.", minimum=1, maximum=1024)
    max_num_batched_tokens: int = setting(
        2048, "Most tokens computed in one step, prompts in chunks included.", minimum=1, maximum=1_000_000
    )
    network_latency_s: float = setting(
        0.008, "One-way delay between planner and robot, in seconds.", minimum=0.0, maximum=10.0
    )
    batch_limit: str = setting(
        "auto",
        'Latency-guided limit of every step: auto (as the policy has it), "on", or "off" (only the engine\'s limits).',
        one_of=("auto", "on", "off"),
    )
    sheds_load: bool = setting(
        False,
        "Refuse goals that have not started and whose time utility has reached zero, with LOAD_SHED (403).",
    )
    resume_margin_s: float = setting(
        0.05, "How much earlier than needed a suspended generation is resumed, in seconds.", minimum=0.0, maximum=60.0
    )
    pessimism: float = setting(
        5.0, "Multiple of the expected length that time budgets count on; k of TimeBill.", minimum=1.0, maximum=100.0
    )
    max_eviction_ratio: float = setting(
        0.95, "Most of a prompt's KV that is removed to keep a time budget.", minimum=0.0, maximum=1.0
    )
    reflex_reserve: float = setting(
        0.5,
        "Share of a time budget left for the robot's reflex: by then, what is not expected in time is given up.",
        minimum=0.0,
        maximum=1.0,
    )
    silence_timeout_s: float = setting(
        30.0,
        "A robot that reports nothing for this long beyond its expected time is silent.",
        minimum=0.1,
        maximum=3600.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The model and the memory it gets."""

    model: str = setting("planner-small", "A Hugging Face checkpoint directory, or the name of a bundled model.")
    device: str = setting("auto", "auto, cpu, cuda or cuda:N; with replicas, one for each, comma-separated.")
    dtype: str = setting(
        "auto", "Of weights and KV; auto goes by model and device.", one_of=("auto", "float32", "bfloat16", "float16")
    )
    num_kv_blocks: int = setting(
        0, "Blocks of the KV cache; 0 sizes it from the free memory and max_num_seqs.", minimum=0, maximum=10_000_000
    )
    block_size: int = setting(16, "Tokens per KV block.", minimum=1, maximum=1024)
    num_threads: int = setting(
        0,
        "CPU threads of the engine; 0 is one for a small model (backend torch), else the library's default.",
        minimum=0,
        maximum=1024,
    )
    lookahead: str = setting(
        "auto",
        'Tokens beyond one per step: "off", forced (by the grammar), prompt (also drafts from it), always (also from '
        "earlier plans), auto (those that pay).",
        one_of=("auto", "always", "prompt", "forced", "off"),
    )
    eviction_method: str = setting(
        "snapkv",
        "What decides which KV is removed to keep a time budget.",
        one_of=("snapkv", "streaming", "key_norm"),
    )
    profile: str = setting(
        "auto",
        "Engine profile that time budgets count on: auto (measured on the first start, in seconds, and kept), a name, "
        "a file, or estimate:HARDWARE/DEVICES/FRAMEWORK/MODEL; an empty string learns from the steps.",
    )
    pipeline_stages: int = setting(
        1, "Backend vllm: workers with a share of the layers each, one per device.", minimum=1, maximum=256
    )
    nodes: str = setting(
        "",
        "Backend vllm: addresses of the machines that hold the stages, comma-separated, this planner's first; the "
        "others run `llm-planner cluster worker`. An empty string: this machine alone.",
    )
    nodes_port: int = setting(
        29510, "Backend vllm: TCP port at which nodes join; vLLM takes the next one.", minimum=1, maximum=65534
    )
    micro_batches: str = setting(
        "balanced",
        "With several stages, how work is divided among micro-batches: static (vLLM's way), token_budget, both "
        "(Dynamic Micro-Batch Scheduling), balanced (ours).",
    )
    max_model_len: int = setting(
        -1,
        "Backend vllm: most tokens of prompt and plan; -1 takes what the KV cache holds, at most what the model takes.",
        minimum=-1,
        maximum=10_000_000,
    )
    tensor_parallel: int = setting(1, "Backend vllm: devices that share each layer.", minimum=1, maximum=256)
    gpu_memory_utilization: float = setting(
        0.0, "Backend vllm: share of a GPU's memory that it may use; 0 takes vLLM's default.", minimum=0.0, maximum=1.0
    )
    quantization: str = setting(
        "", "Backend vllm: quantization method of the weights; an empty string takes what the checkpoint says."
    )
    kv_cache_dtype: str = setting("auto", "Backend vllm: type of the KV cache, e.g. fp8; auto takes the model's.")
    vllm_args: str = setting(
        "",
        "Backend vllm: further engine arguments of vLLM as a JSON mapping, e.g. "
        """{"trust_remote_code": true}; an argument that a setting or the planner decides is refused.""",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIConfig:
    """The server that ``backend: openai`` asks; ``engine.model`` then names a directory with the model's tokenizer."""

    base_url: str = setting(
        "http://127.0.0.1:8000/v1",
        "Address of an OpenAI-compatible server, up to /v1; with replicas, one for each, comma-separated.",
    )
    model: str = setting("", "Name of the model on that server; an empty string takes the only one that it serves.")
    api_key_variable: str = setting("OPENAI_API_KEY", "Environment variable that holds the API key, if there is one.")
    server: str = setting(
        "auto",
        "What the server is: auto (as it says), vllm, sglang, llamacpp, or other, which gets no grammar.",
        one_of=("auto", "vllm", "sglang", "llamacpp", "other"),
    )
    max_model_len: int = setting(
        4096, "Most tokens of prompt and plan, for a server that does not say.", minimum=64, maximum=10_000_000
    )
    connect_timeout_s: float = setting(5.0, "How long to wait for a connection.", minimum=0.1, maximum=600.0)
    stall_timeout_s: float = setting(
        30.0, "A server that sends nothing for this long is asked again.", minimum=0.1, maximum=3600.0
    )
    retry_s: float = setting(
        20.0,
        "How long a goal is asked for again, from its first failure on, before it ends.",
        minimum=0.0,
        maximum=3600.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """Everything that a planner is assembled from."""

    backend: str = setting(
        "torch", "What runs the model: torch, vllm, openai (a server), or fake (scripted plans, for tests)."
    )
    replicas: int = setting(
        1,
        "Engine processes that share the goals; engine.device and openai.base_url may name one each, comma-separated.",
        minimum=1,
        maximum=64,
    )
    robot_models: tuple[str, ...] = setting(
        (), "Extra directories with robot models, searched before the bundled ones."
    )
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    openai: OpenAIConfig = field(default_factory=OpenAIConfig)
    length_predictor: str = setting(
        "auto",
        "Directory of a length predictor; auto takes the model's own (MODEL-length), an empty string none.",
    )
    min_confidence: float = setting(
        -1.0,
        "How sure the model must be of each statement, 0 to 1; one below that, and all after it, is not executed, and "
        "the goal ends with NOT_UNDERSTOOD. -1 takes what the model's planner.json says, or 0.",
        minimum=-1.0,
        maximum=1.0,
    )
    waits_for_plan_s: float = setting(
        0.25,
        "How long the first statements of a plan wait, at most, until the model has written all of it and is sure of "
        "all of it, s. 0 sends each statement as it is written, a day sends whole plans only. Plans of emergencies and "
        "of goals with a time budget never wait.",
        minimum=0.0,
        maximum=86_400.0,
    )
    second_look_s: float = setting(
        2.0,
        "How long other plans are looked for, at most, where one contradicts its instruction or the model is not sure "
        "of it, s; 0 takes the first plan or none. Only before the robot has anything of it, by the torch backend, and "
        "neither in emergencies nor for goals with a time budget.",
        minimum=0.0,
        maximum=3600.0,
    )
    max_instruction_bytes: int = setting(4096, "Longest instruction, UTF-8 bytes.", minimum=1, maximum=1_000_000)
    max_scene_bytes: int = setting(65536, "Longest scene, UTF-8 bytes.", minimum=0, maximum=10_000_000)
    max_queued: int = setting(256, "Most goals that may be unfinished at once.", minimum=1, maximum=100_000)
    urgent_share: float = setting(
        0.125, "Share of max_queued that only urgent goals may take.", minimum=0.0, maximum=0.9
    )
    max_goals_per_client: int = setting(
        64,
        "Most goals of one client that may be unfinished at once; urgent goals in the places kept for them aside.",
        minimum=1,
        maximum=100_000,
    )
    max_replans: int = setting(
        2,
        "How often a plan goes on another way when a segment fails on the robot, before its goal ends; 0: never.",
        minimum=0,
        maximum=100,
    )
    replan_context: str = setting(
        "keep",
        "What the model has in sight when a plan goes on another way: keep (all that it has read and written) or fresh "
        "(the task, the new scene and what is done: for a model that writes once more what it sees).",
        one_of=("keep", "fresh"),
    )
    chat_segments: str = setting("sentence", "What a chat is answered in.", one_of=("sentence", "paragraph"))
    temperature: float = setting(0.0, "Sampling temperature; 0 is greedy.", minimum=0.0, maximum=10.0)
    seed: int = setting(0, "Seed of sampling.", minimum=0, maximum=2**31 - 1)

    @property
    def served_model(self) -> str:
        """What writes the plans, for people."""
        return served_model(self.backend, self.engine.model, self.openai.model)


def served_model(backend: str, engine_model: str, openai_model: str) -> str:
    """Returns what writes the plans, for people: with some backends it is not ``engine.model``."""
    if backend == "fake":
        return "scripted plans"
    return (openai_model or engine_model) if backend == "openai" else engine_model


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What only the node needs, besides the planner's own configuration."""

    autostart: bool = setting(True, "Configure and activate without being told by a lifecycle manager.")
    startup_check_s: float = setting(
        1.0, "How long to look for another planner of this name before activating.", minimum=0.0, maximum=60.0
    )
    client_timeout_s: float = setting(
        5.0, "A client whose heartbeats stop for this long is gone, and its goal ends.", minimum=3.0, maximum=3600.0
    )
    result_memory_s: float = setting(
        60.0,
        "How long ~/get_segments knows a finished goal's segments and end.",
        minimum=1.0,
        maximum=3600.0,
    )
    metrics_port: int = setting(0, "TCP port of /metrics for Prometheus; 0 for none.", minimum=0, maximum=65535)
    metrics_host: str = setting("127.0.0.1", "Address that /metrics listens on; 0.0.0.0 shows it to the network.")
