# SPDX-License-Identifier: Apache-2.0
"""What is going on: the fleet as a dashboard shows it, metrics for Prometheus, recordings."""
