# SPDX-License-Identifier: Apache-2.0
"""Figures of the torch engine on one device, with random weights made on the spot."""
