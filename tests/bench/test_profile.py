import pytest

from llm_planner.bench.profile import Prober, _fit, measure_profile, write_profile
from llm_planner.prediction.profile import Chunk, find_profile, load_profile
from llm_planner.simulation.backend import SimulatedBackend

TRUTH = find_profile("llama3-8b-rtx4090")


@pytest.fixture(scope="module")
def measured():
    backend = SimulatedBackend(TRUTH, lambda request_id: 4 if request_id.endswith("3") else 1000)
    return measure_profile(Prober(backend, num_repeats=3), "again", "the published profile, measured")


def test_a_simulated_engine_is_measured_back(measured):
    assert measured.decode.base_s.value == pytest.approx(TRUTH.decode.base_s.value, rel=0.01)
    assert measured.decode.per_sequence_s.value == pytest.approx(TRUTH.decode.per_sequence_s.value, rel=0.05)
    assert measured.decode.per_kv_token_s.value == pytest.approx(TRUTH.decode.per_kv_token_s.value, rel=0.05)
    assert measured.resume.per_token_s.value == pytest.approx(TRUTH.resume.per_token_s.value, rel=0.01)
    for num_tokens in (256, 512, 1024):
        expected_s = TRUTH.step_s([Chunk(num_tokens, 0)])
        assert measured.step_s([Chunk(num_tokens, 0)]) == pytest.approx(expected_s, rel=0.15)


def test_every_number_says_that_it_was_measured_and_the_file_loads(measured, tmp_path):
    path = tmp_path / "again.yaml"
    write_profile(measured, path)
    assert load_profile(path) == measured
    assert "assumed" not in path.read_text()


def test_a_fit_is_never_negative():
    assert _fit([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], [1.0, 2.0, 3.0])[0] == pytest.approx(0.0, abs=1e-9)
    fitted = _fit([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)], [3.0, 2.0, 1.0])
    assert fitted[1] == 0.0
    assert fitted[0] > 0
