# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench overload``: what order, batch limit and shedding each bring, and where the default is worse."""
