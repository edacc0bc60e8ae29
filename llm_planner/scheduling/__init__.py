# SPDX-License-Identifier: Apache-2.0
"""What runs next, and how much: scheduler, KV ledger, execution tracker, policies."""
