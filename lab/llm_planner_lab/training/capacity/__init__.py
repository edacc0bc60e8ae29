# SPDX-License-Identifier: Apache-2.0
"""How are throughput models made? ALA as printed, the default method, baselines, splits, figures."""
