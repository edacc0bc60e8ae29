# SPDX-License-Identifier: Apache-2.0
"""Several machines that serve one model together, by vLLM and Ray: one file, one command on each."""
