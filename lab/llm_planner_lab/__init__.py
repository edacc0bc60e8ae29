# SPDX-License-Identifier: Apache-2.0
"""The laboratory of llm_planner: what measures, trains, simulates schedulers, or reproduces a paper.

Importable from a checkout alone (``make setup-dev``); neither the wheel nor colcon installs it, and the product
imports nothing of it.
"""
