# SPDX-License-Identifier: Apache-2.0
"""``llm-planner train-planner`` as a user meets it."""

from typer.testing import CliRunner

from llm_planner.cli.main import app

runner = CliRunner()
MODEL_FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "planner.json"}


def test_train_planner_exports_the_model_without_the_checkpoint(tmp_path, monkeypatch):
    def train(options):
        options.output.mkdir()
        for name in (*MODEL_FILES, "checkpoint.pt"):
            (options.output / name).write_text(name)

    monkeypatch.setattr("llm_planner_lab.training.run.train_planner", train)
    result = runner.invoke(app, ["train-planner", str(tmp_path / "run"), "--export", str(tmp_path / "model")])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "model").iterdir()} == MODEL_FILES
    assert str(tmp_path / "model") in result.stdout.replace("\n", "")
