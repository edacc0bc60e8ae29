# SPDX-License-Identifier: Apache-2.0
"""The file of measured steps that lies beside a profile."""

from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner_lab.bench.planner_profile import write_samples


def test_samples_are_written_with_a_header(tmp_path):
    write_samples([StepSample(StepKind.DECODE, 3, 2, 2, 64, 0.00123456789)], path := tmp_path / "s.csv")
    assert path.read_text().splitlines() == [
        "kind,point,num_seqs,num_tokens,kv_tokens,duration_s",
        "decode,3,2,2,64,0.00123457",
    ]
