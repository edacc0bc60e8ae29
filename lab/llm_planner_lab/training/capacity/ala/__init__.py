# SPDX-License-Identifier: Apache-2.0
"""ALA (Ray et al.): an exponential law per workload, its parameters extrapolated by trees, its error predicted."""
