# SPDX-License-Identifier: Apache-2.0
"""A pipeline of stages and links in virtual time: several micro-batches in flight, KV memory, preemption, idle time."""
