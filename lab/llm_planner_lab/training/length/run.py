# SPDX-License-Identifier: Apache-2.0
"""Makes a length predictor from start to end: prompts, lengths, training, calibration, figures, baselines."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.fingerprint import tokenizer_fingerprint, weights_fingerprint
from llm_planner.engine.length_config import HEAD_NAME, LengthConfig
from llm_planner.engine.length_predictor import TorchLengthPredictor
from llm_planner.prediction.calibration import GroupedCalibration, IntervalCalibration
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.progress import progress_bar
from llm_planner_lab.training.length.boosting import HOW_TO_INSTALL, boosted_lengths, is_installed
from llm_planner_lab.training.length.collect import collect_lengths
from llm_planner_lab.training.length.data import Example, encode_examples
from llm_planner_lab.training.length.figures import FIGURES_NAME, Figures, card
from llm_planner_lab.training.length.measure import Errors, errors_of, fit_calibration, measure_served, predict_lengths
from llm_planner_lab.training.length.network import LengthNetwork, save_network
from llm_planner_lab.training.length.objectives import Buckets, Classes, Objective, Regression
from llm_planner_lab.training.length.prompts import PromptParts, generate_prompts, inventory_prompts, read_prompts
from llm_planner_lab.training.length.trainer import LengthTrainer, Recipe

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_FILES = ("config.json", "model.safetensors", HEAD_NAME, "length.json", FIGURES_NAME, "README.md", *_TOKENIZER_FILES)
_FIVE = (25, 50, 75, 99)
_TEN = tuple(range(10, 100, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthOptions:
    """What to make, and from what.

    Attributes:
        model: Checkpoint directory of the target model.
        prompts: File with prompts; None to generate some that the model understands.
        is_inventory: Whether that is a model of inventories.
        robot_models: Directories with robot models besides the bundled ones.
        output: Directory of the finished predictor.
        work: Directory that keeps measured lengths and checkpoints, so that an interrupted run goes on.
        buckets: How many classes.
        max_tokens: N_model: longest response.
        recipe: How networks are trained.
        num_train: Generated prompts to learn from.
        num_held_out: Generated prompts for calibration, and as many for the figures.
        baselines: Whether to train what the predictor is compared with.
        threads: CPU threads.
    """

    model: Path
    prompts: Path | None
    is_inventory: bool
    robot_models: tuple[Path, ...]
    output: Path
    work: Path
    buckets: int
    max_tokens: int
    recipe: Recipe
    num_train: int
    num_held_out: int
    baselines: bool
    threads: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Examples by purpose."""

    train: list[Example]
    calibration: list[Example]
    test: list[Example]


class LengthRun:
    """One run; every part shows its progress on ``console``."""

    def __init__(self, options: LengthOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._library = RobotLibrary(options.robot_models)
        self._bucket_tokens = -(-options.max_tokens // options.buckets)
        self._num_buckets = -(-options.max_tokens // self._bucket_tokens)  # fewer if there are more than lengths

    def make(self) -> Figures:
        """Makes the predictor, measures it, writes it; returns the figures.

        Raises:
            PlannerError: If model, prompts or the checkpoint to start from cannot be used.
        """
        torch.set_num_threads(self._options.threads)
        parts = self._examples()
        lengths = [example.num_tokens for example in parts.train]
        buckets = Buckets.of(lengths, self._bucket_tokens, self._num_buckets)
        network, steps = self._train("rlp", self._options.recipe, buckets, parts)
        finished = self._options.work / "predictor"
        self._write(network, finished, GroupedCalibration())
        calibration = fit_calibration(TorchLengthPredictor(finished, device="cpu"), parts.calibration)
        self._write(network, finished, calibration)
        predictor, max_tokens = TorchLengthPredictor(finished, device="cpu"), self._options.max_tokens
        served = measure_served(predictor, parts.test, time.perf_counter, max_tokens)
        figures = Figures(
            served=served,
            baselines=self._baselines(parts, steps) if self._options.baselines else {},
            num_train=len(parts.train),
            num_calibration=len(parts.calibration),
            num_test=len(parts.test),
            num_truncated=sum(example.num_tokens == max_tokens for example in parts.test),
            max_tokens=max_tokens,
            seed=self._options.recipe.seed,
            steps=steps,
        )
        self._publish(network, figures, finished)
        return figures

    def _examples(self) -> Parts:
        options = self._options
        parts = self._prompts()
        what = f"lengths of {options.model.name}"
        with progress_bar(what, self._console) as on_progress:
            lengths = collect_lengths(
                options.model,
                parts.all,
                path=options.work / "lengths.jsonl",
                max_tokens=options.max_tokens,
                robot_models=options.robot_models,
                threads=options.threads,
                observe=lambda done: on_progress(what, done / max(1, len(parts.all))),
            )
        encoded = [
            encode_examples(options.model, self._library, part, lengths)
            for part in (parts.train, parts.calibration, parts.test)
        ]
        if not all(encoded):
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"{options.model} cannot serve these prompts: too few of them got a response"
            )
        if num_left_out := len(parts.all) - len(lengths):
            self._console.print(f"{num_left_out} prompts that the model cannot serve are left out")
        return Parts(*encoded)

    def _prompts(self) -> PromptParts:
        options, seed = self._options, self._options.recipe.seed
        if options.prompts is None:
            generate = inventory_prompts if options.is_inventory else generate_prompts
            return generate(options.num_train, options.num_held_out, seed)
        return read_prompts(options.prompts, self._library.names(), seed)

    def _train(self, name: str, recipe: Recipe, objective: Objective, parts: Parts) -> tuple[LengthNetwork, int]:
        """Returns a trained network, and its steps."""
        trainer = LengthTrainer(recipe, objective, parts.train, self._options.work / f"{name}.pt")
        what = f"training {name}"
        with progress_bar(what, self._console) as on_progress:
            on_progress(what, trainer.progress)
            network = trainer.run(lambda report: on_progress(what, report.progress))
        return network.float(), trainer.step

    def _baselines(self, parts: Parts, steps: int) -> dict[str, Errors]:
        """Returns the errors of what the predictor is compared with, trained for as many steps."""
        lengths = [example.num_tokens for example in parts.train]
        true = [example.num_tokens for example in parts.test]
        recipe = replace(self._options.recipe, steps=steps, seconds=0.0)
        objectives: dict[str, Objective] = {
            "regression": Regression.of(lengths),
            "classes_5": Classes.of(lengths, _FIVE),
            "classes_10": Classes.of(lengths, _TEN),
        }
        errors = {}
        for name, objective in objectives.items():
            network, _ = self._train(name, recipe, objective, parts)
            predicted = predict_lengths(
                network, objective, parts.test, recipe.start.max_input_tokens, recipe.head_input_tokens
            )
            errors[name] = errors_of(predicted, true)
        if is_installed():
            errors["boosted_trees"] = errors_of(boosted_lengths(parts.train, parts.test, recipe.seed), true)
        else:
            self._console.print(f"no boosted trees: {HOW_TO_INSTALL}")
        return errors

    def _write(self, network: LengthNetwork, directory: Path, calibration: GroupedCalibration) -> None:
        options = self._options
        save_network(network, directory)
        for name in _TOKENIZER_FILES:
            if (options.model / name).is_file():
                (directory / name).write_bytes((options.model / name).read_bytes())
        LengthConfig(
            target_model=options.model.resolve().name,
            target_weights=weights_fingerprint(options.model),
            target_tokenizer=tokenizer_fingerprint(options.model),
            bucket_tokens=self._bucket_tokens,
            num_buckets=self._num_buckets,
            max_input_tokens=options.recipe.start.max_input_tokens,
            head_input_tokens=options.recipe.head_input_tokens,
            levels=_rounded(calibration.longest),
            groups=tuple((bound, _rounded(shorter)) for bound, shorter in calibration.shorter),
        ).save(directory)

    def _publish(self, network: LengthNetwork, figures: Figures, finished: Path) -> None:
        """Adds figures and card, and copies everything to the output directory."""
        figures.save(finished)
        text = card(
            figures.to_json(),
            target=self._options.model.resolve().name,
            num_parameters=sum(parameter.numel() for parameter in network.parameters()),
            num_layers=self._options.recipe.start.num_layers,
            bucket_tokens=self._bucket_tokens,
        )
        (finished / "README.md").write_text(text, encoding="utf-8")
        self._options.output.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            if (finished / name).is_file():
                (self._options.output / name).write_bytes((finished / name).read_bytes())


def _rounded(calibration: IntervalCalibration) -> tuple[float, ...]:
    return tuple(round(level, 6) for level in calibration.levels)
