# SPDX-License-Identifier: Apache-2.0
"""Tables: what is read is what was written, and what cannot be used is named by its line."""

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.prediction.throughput.table import COLUMNS, Combination, Measurement, read_table, write_table

GOOD = "Nvidia A100 GPU,1,vLLM,meta-llama/Llama-2-7b-hf,128,4,1.0,1024.0"


HEADER = ",".join(COLUMNS)


def table(tmp_path, *rows, header=HEADER):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_shipped_table_reads():
    measurements = read_table(share_dir() / "profiles" / "throughput" / "llm_inference_bench.csv")
    assert len(measurements) == 3987
    assert len({m.combination for m in measurements}) == 234


def test_written_rows_are_read_again(tmp_path):
    path = tmp_path / "mine.csv"
    rows = [Measurement(Combination("CPU", 1, "llm_planner", "planner-small"), 32, b, 2.0, 32.0 * b) for b in (1, 4)]
    write_table(rows[:1], path)
    write_table(rows[1:], path)
    assert list(read_table(path)) == rows


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (GOOD.replace("1.0,1024.0", "-1.0,1024.0"), "line 3: Latency is -1.0"),
        (GOOD.replace("1024.0", "nan"), "line 3: Throughput is nan"),
        (GOOD.replace("1024.0", "inf"), "line 3: Throughput is inf"),
        (GOOD.replace("1.0,", "1000 ms,"), "line 3: Latency is '1000 ms'"),
        (GOOD.replace("1.0,1024.0", "1000.0,1024.0"), "line 3: a throughput of 1024 does not agree"),  # milliseconds
        (GOOD.replace(",4,", ",0,"), "line 3: Batch Size is 0"),
        (GOOD.replace(",4,", ",4.5,"), "line 3: Batch Size is 4.5"),
        (GOOD.replace("vLLM", ""), "line 3: Framework is empty"),
        ("Nvidia A100 GPU,1", "line 3: Framework is empty"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_line(tmp_path, row, problem):
    with pytest.raises(PlannerError, match=problem) as caught:
        read_table(table(tmp_path, GOOD, row))
    assert caught.value.code is ErrorCode.INVALID_FILE


def test_missing_columns_are_named(tmp_path):
    header = ",".join(name for name in COLUMNS if name not in {"Latency", "Model"})
    with pytest.raises(PlannerError, match="columns Model, Latency are missing"):
        read_table(table(tmp_path, GOOD, header=header))


def test_a_table_without_rows_and_no_file_are_refused(tmp_path):
    with pytest.raises(PlannerError, match="no measurement"):
        read_table(table(tmp_path))
    with pytest.raises(PlannerError, match="cannot be read"):
        read_table(tmp_path / "nothing.csv")
