# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.samples import StepKind, StepSample, read_samples, write_samples

durations = st.floats(1e-6, 1e3).map(lambda value: float(f"{value:.6g}"))
positive = st.integers(1, 10_000)
samples = st.builds(
    StepSample, st.sampled_from(StepKind), st.integers(0, 99), positive, positive, st.integers(0, 10**6), durations
)
HEADER = "kind,point,num_seqs,num_tokens,kv_tokens,duration_s"


@given(st.lists(samples, max_size=9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, some):
    path = tmp_path / "s.csv"
    write_samples(some, path)
    assert read_samples(path) == some


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "first line"),
        ("kind,seconds\n", "first line"),
        (f"{HEADER}\ndecode,0,1,1,32,0.01\ndecode,0,1,1,32\n", "line 3"),
        (f"{HEADER}\nsleep,0,1,1,32,0.01\n", "line 2"),
        (f"{HEADER}\ndecode,0,1,1,32,nan\n", "line 2"),
        (f"{HEADER}\ndecode,0,1,1,32,0\n", "line 2"),
        (f"{HEADER}\ndecode,0,0,1,32,0.01\n", "line 2"),
        (f"{HEADER}\ndecode,0,1,1,-2,0.01\n", "line 2"),
    ],
)
def test_what_is_no_table_of_samples_is_refused_with_its_line(tmp_path, text, named):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(PlannerError, match=named) as caught:
        read_samples(path)
    assert caught.value.code is ErrorCode.INVALID_FILE


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"nowhere\.csv"):
        read_samples(tmp_path / "nowhere.csv")
