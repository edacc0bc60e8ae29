# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench pipeline``: dynamic token budgets and micro-batches on a simulated pipeline."""
