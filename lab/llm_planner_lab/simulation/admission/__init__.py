# SPDX-License-Identifier: Apache-2.0
"""Admission under limited KV memory in virtual time: jobs of a trace, step times, a run and its checker."""
