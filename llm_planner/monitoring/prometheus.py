# SPDX-License-Identifier: Apache-2.0
"""A planner's figures for Prometheus: vLLM's names where they mean the same, ours (``llm_planner:``) where they do not.

docs/metrics.md lists every name.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from llm_planner.core.request import PlanResult
from llm_planner.serving.planner_view import PlannerView
from llm_planner.serving.view import LoopView

TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)


class PlannerMetrics:
    """Keeps the figures of one planner; safe to use from any thread.

    Args:
        model: Name of the model: the label ``model_name`` of every figure, as vLLM has it.
    """

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self._model = model
        self._shown = _Shown()
        self.registry.register(self._shown)
        self._ended = Counter(
            "llm_planner:goals_ended",
            "Goals that ended, by error code; refused ones included.",
            ["model_name", "code"],
            registry=self.registry,
        )
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens of the goals that ended.")
        self._queries = self._counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix store.")
        self._hits = self._counter("vllm:prefix_cache_hits", "Prompt tokens found in the prefix store.")
        self._suspensions = self._counter("llm_planner:suspensions", "Suspensions at segment boundaries.")
        self._prompts = self._histogram("vllm:request_prompt_tokens", "Prompt tokens per goal.", TOKENS)
        self._outputs = self._histogram("vllm:request_generation_tokens", "Tokens written per goal.", TOKENS)
        self._first = self._histogram(
            "llm_planner:time_to_first_segment_seconds", "Arrival to the first segment leaving the planner.", SECONDS
        )
        self._plan = self._histogram(
            "llm_planner:plan_time_seconds", "Arrival to the last segment leaving the planner.", SECONDS
        )
        self._waiting = self._histogram(
            "llm_planner:robot_waiting_seconds", "Time per goal that its robot stood still, waiting.", SECONDS
        )
        self._moving = self._histogram(
            "llm_planner:robot_execution_seconds", "Time per goal that its robot spent executing.", SECONDS
        )

    def count(self, result: PlanResult) -> None:
        """Adds a goal that ended; one that the server ended itself knows few of its figures (docs/metrics.md)."""
        metrics, name = result.metrics, self._model
        self._ended.labels(name, result.error_code.name).inc()
        if metrics.num_prompt_tokens:
            self._prompt_tokens.labels(name).inc(metrics.num_prompt_tokens)
            self._queries.labels(name).inc(metrics.num_prompt_tokens)
            self._hits.labels(name).inc(metrics.num_cached_tokens)
            self._prompts.labels(name).observe(metrics.num_prompt_tokens)
            self._outputs.labels(name).observe(metrics.num_output_tokens)
        self._suspensions.labels(name).inc(metrics.num_suspensions)
        if metrics.response_time_s is not None:
            self._first.labels(name).observe(metrics.response_time_s)
        if metrics.waiting_time_s:  # none: the server ended the goal itself, and knows neither
            self._waiting.labels(name).observe(metrics.waiting_time_s)
            self._moving.labels(name).observe(metrics.execution_time_s)
        if metrics.plan_time_s is not None:
            self._plan.labels(name).observe(metrics.plan_time_s)

    def show(self, view: PlannerView) -> None:
        """Takes the planner as it is now; scrapes show it until the next one comes."""
        self._shown.view = view

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(name, meaning, ["model_name"], registry=self.registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, ["model_name"], buckets=buckets, registry=self.registry)


class _Shown(Collector):
    """The figures of the last view; none before the first."""

    view: PlannerView | None = None

    def collect(self) -> Iterator[Metric]:
        """Yields what the view says (prometheus_client's interface)."""
        if (view := self.view) is None:
            return
        yield _gauge("llm_planner:is_active", "1 while the planner takes goals.", view.model, view.state == "ACTIVE")
        yield _gauge("llm_planner:num_goals", "Unfinished goals.", view.model, view.num_goals)
        yield _counter("llm_planner:engine_restarts", "Restarts of the engine process.", view.model, view.num_restarts)
        if view.loop is not None:
            yield from _of_loop(view.model, view.loop)


def _of_loop(model: str, loop: LoopView) -> Iterator[Metric]:
    status, totals = loop.status, loop.totals
    used = status.num_kv_blocks - status.num_free_kv_blocks
    yield _gauge("vllm:num_requests_running", "Generations in the engine's batch.", model, status.num_running)
    yield _gauge("vllm:num_requests_waiting", "Generations that wait for a place in it.", model, status.num_ready)
    share = used / status.num_kv_blocks if status.num_kv_blocks else 0.0
    yield _gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.", model, share)
    suspended = "Generations that are suspended while their robot moves."
    yield _gauge("llm_planner:num_requests_suspended", suspended, model, status.num_suspended)
    yield _gauge("llm_planner:max_num_seqs", "Slots of the batch.", model, loop.max_num_seqs)
    yield _gauge("llm_planner:kv_blocks_offloaded", "KV blocks in host memory.", model, loop.num_offloaded_kv_blocks)
    yield _gauge("llm_planner:kv_blocks_of_prefixes", "KV blocks of prefixes.", model, loop.num_prefix_kv_blocks)
    yield _counter("vllm:generation_tokens", "Tokens that the model wrote.", model, totals.num_output_tokens)
    computed = "Tokens that were computed: prompts, and decoded ones."
    yield _counter("llm_planner:computed_tokens", computed, model, totals.num_computed_tokens)
    yield _counter("llm_planner:engine_steps", "Steps of the engine.", model, totals.num_steps)
    yield _counter("llm_planner:engine_busy_seconds", "Time in which it ran steps.", model, totals.busy_s)
    yield _counter("llm_planner:scheduler_decisions", "Decisions of the scheduler.", model, totals.num_decisions)
    yield _counter("llm_planner:scheduler_decision_seconds", "Time that they took.", model, totals.decision_s)
    info = InfoMetricFamily("llm_planner:planner", "What plans, and with how much KV.", labels=["model_name"])
    info.add_metric([model], {"num_kv_blocks": f"{status.num_kv_blocks}", "policy": status.policy})
    yield info


def _gauge(name: str, meaning: str, model: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=["model_name"])
    family.add_metric([model], float(value))
    return family


def _counter(name: str, meaning: str, model: str, value: float) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["model_name"])
    family.add_metric([model], float(value))
    return family
