"""Measures what throughput models are fitted to."""
