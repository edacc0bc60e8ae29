# SPDX-License-Identifier: Apache-2.0
import json

from typer.testing import CliRunner

from llm_planner_lab.bench.engines import command
from tests.engine.builders import save_model


def test_every_batch_size_is_measured_and_so_is_transformers(tmp_path):
    model = save_model(tmp_path / "model")
    file = tmp_path / "figures.json"
    options = [
        "--batch",
        "1",
        "--batch",
        "3",
        "--prompt-tokens",
        "20",
        "--new-tokens",
        "4",
        "--shared-tokens",
        "40",
        "--rounds",
        "2",
    ]
    result = CliRunner().invoke(command, ["--model", str(model), *options, "--json-file", str(file)])
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["rows"]
    assert [(row["what"], row["num_seqs"]) for row in rows] == [
        (what, size)
        for size in (1, 3)
        for what in ("prefill", "decode / forward", "decode / generate", "offload and restore")
    ]
    assert all(0 < row["ours"]["p10_ms"] <= row["ours"]["p50_ms"] for row in rows)
    assert all((row["transformers"] is None) == (row["what"] == "offload and restore") for row in rows)
    assert all((row["without_kernels"] is None) == (row["what"] not in {"prefill", "decode / forward"}) for row in rows)
