# SPDX-License-Identifier: Apache-2.0
"""Who may hold KV memory under uncertain output lengths: the memory ahead, and lengths that are learned."""
