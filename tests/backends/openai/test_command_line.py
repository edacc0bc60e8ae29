# SPDX-License-Identifier: Apache-2.0
import json

from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode
from tests.backends.openai.test_faults import CLOSED_PORT


def plan(*options):
    return CliRunner().invoke(app, ["plan", "turn left 90 degrees, fly up 50 cm", "--backend", "openai", *options])


def test_a_plan_from_a_server(engine_server):
    engine_server.order(forget=True)
    result = plan("--base-url", engine_server.base_url, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["plan"] == "tu(90);mu(50);"
    assert answer["metrics"]["num_output_tokens"] > 5


def test_no_server_there():
    result = plan("--base-url", f"http://127.0.0.1:{CLOSED_PORT}/v1")
    assert result.exit_code == 1
    assert result.exception.code is ErrorCode.SERVER_UNREACHABLE


def test_a_directory_without_a_tokenizer(tmp_path):
    assert plan("--model", str(tmp_path)).exception.code is ErrorCode.TOKENIZER_MISSING
