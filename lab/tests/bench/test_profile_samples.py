# SPDX-License-Identifier: Apache-2.0
"""The file of measured steps that lies beside a profile."""

from llm_planner.core.resources import share_dir
from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner_lab.bench.planner_profile import write_samples


def test_samples_are_written_as_those_of_the_shipped_profile_are(tmp_path):
    write_samples([StepSample(StepKind.DECODE, 3, 2, 2, 64, 0.00123456789)], path := tmp_path / "s.csv")
    header, row = path.read_text().splitlines()
    shipped = share_dir() / "profiles" / "planner-small-cpu.samples.csv"
    assert header == shipped.read_text().splitlines()[0]
    assert row == "decode,3,2,2,64,0.00123457"
