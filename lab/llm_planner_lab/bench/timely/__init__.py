"""Scheduling policies side by side, as in section 7 of TimelyLLM: replays, metrics, figures and the page."""
