# SPDX-License-Identifier: Apache-2.0
"""Robots that exist only on the network: they speak a real robot's protocol and move by its robot model."""
