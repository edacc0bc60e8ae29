# SPDX-License-Identifier: Apache-2.0
"""How many tokens a second a server brings: measured tables, the model fitted to them, and how sure it is."""
