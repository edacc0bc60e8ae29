# SPDX-License-Identifier: Apache-2.0
"""Measures what throughput models are fitted to."""
