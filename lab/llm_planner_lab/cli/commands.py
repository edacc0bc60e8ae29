# SPDX-License-Identifier: Apache-2.0
"""The commands that the laboratory adds: found by the entry point group ``llm_planner.commands``."""

from llm_planner_lab.cli.lazy import LazyCommand

COMMANDS = (
    LazyCommand(
        "evaluate",
        "evaluate:evaluate",
        "Judge any model by what it makes of instructions: right, wrong or not understood, by execution.",
    ),
    LazyCommand("train-planner", "train_planner:train_planner", "Train the planner model on generated tasks."),
    LazyCommand(
        "train-length-predictor",
        "train_length_predictor:train_length_predictor",
        "Train a predictor of response lengths on what a model really answers.",
    ),
    LazyCommand(
        "timeline",
        "timeline:timeline",
        "Show who waited, who moved and when the engine worked: a PNG, and a Chrome trace that opens in Perfetto.",
    ),
    LazyCommand(
        "profile",
        "profile:profile",
        "Measure prefill, decoding, offloading, resuming, evicting and the planner's own time; "
        "write an engine profile.",
    ),
    LazyCommand("bench", "bench:app", "Benchmarks of scheduling, in virtual time and on a real planner."),
    LazyCommand(
        "chaos",
        "chaos:chaos",
        "Start a fleet, inject faults from a seeded schedule, and check every call that every robot made.",
    ),
    LazyCommand("trace", "trace:app", "Compose, record and replay traces of robots' requests."),
    LazyCommand("capacity", "capacity:app", "Predict what a server can do, and plan how many are needed."),
    LazyCommand("simulate", "simulate:app", "Simulate schedulers on lengths alone, without an engine."),
)
