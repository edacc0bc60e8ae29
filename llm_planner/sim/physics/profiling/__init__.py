# SPDX-License-Identifier: Apache-2.0
"""How long do skills take a body? Every skill over a grid of arguments and seeds, fitted, and written into the YAML."""
