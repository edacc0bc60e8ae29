# SPDX-License-Identifier: Apache-2.0
"""Which tokens go into the next micro-batch of a pipeline, and how many micro-batches are in flight."""
