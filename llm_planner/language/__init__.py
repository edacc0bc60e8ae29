# SPDX-License-Identifier: Apache-2.0
"""What is a plan: MiniSpec as a syntax tree, an incremental parser and a printer."""
