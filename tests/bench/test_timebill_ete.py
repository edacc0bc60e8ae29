from dataclasses import dataclass

import pytest

from llm_planner.bench.profile import Prober, measure
from llm_planner.bench.timebill_ete import EndToEnd, ete_accuracy, measure_end_to_end, solver_ms, wcet_share
from llm_planner.core.errors import PlannerError
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import find_profile
from llm_planner.serving.fake import FakeBackend
from llm_planner.simulation.backend import SimulatedBackend
from tests.serving.builders import make_loop, make_request

PROFILE = find_profile("llama3-8b-rtx4090")


@dataclass
class ManualClock:
    time_s: float = 0.0

    def now_s(self):
        return self.time_s

    def advance(self, seconds):
        self.time_s += seconds


def test_the_estimator_of_a_simulated_engine_is_nearly_exact_and_its_steps_have_no_noise():
    samples = measure(Prober(SimulatedBackend(PROFILE, lambda _: 1000), num_repeats=6))
    accuracy = ete_accuracy(samples)
    assert accuracy["prefill_mape"] < 0.03
    assert accuracy["decode_mape"] < 0.01
    assert accuracy["noise_floor"]["prefill"] == 0.0
    assert accuracy["noise_floor"]["decode"] < 1e-3  # caches grow by a token per repeat


def test_prediction_and_worst_case_are_measured_against_what_happened():
    clock = ManualClock()
    backend = FakeBackend(plans={"go": "a(1);b(2);", "bad": "forbidden();"}, sleep=clock.advance)
    loop = make_loop(backend=backend, policy="fcfs_stream", do_clients_report=False)
    texts = ["go"] * 6 + ["bad", "go"]
    requests = [make_request(f"r{i}", text) for i, text in enumerate(texts)]
    measured = measure_end_to_end(loop, requests, clock)
    assert 2 <= len(measured) < 7  # not the refused plan, and not those before the speed was known
    assert wcet_share(measured) == 1.0
    assert all(m.predicted_s == pytest.approx(m.measured_s, rel=0.5) for m in measured)


def test_the_share_counts_what_took_longer():
    late, early = EndToEnd(1.0, 1.0, 1.1), EndToEnd(1.0, 2.0, 1.9)
    assert wcet_share([late, early]) == 0.5
    with pytest.raises(PlannerError, match="no request"):
        wcet_share([])


def test_the_solver_is_timed_by_the_clock_that_is_given():
    class Ticking(ManualClock):
        def now_s(self):
            self.time_s += 0.001
            return self.time_s

    spent = solver_ms(ProfiledTimes(PROFILE).cautious, 50, clock=Ticking())
    assert spent == {"p50": pytest.approx(1.0), "p99": pytest.approx(1.0)}
