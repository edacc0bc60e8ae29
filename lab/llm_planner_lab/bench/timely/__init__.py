# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies side by side, as in section 7 of TimelyLLM: replays, metrics, figures and the page."""
