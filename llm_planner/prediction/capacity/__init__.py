# SPDX-License-Identifier: Apache-2.0
"""How many more robots does one server hold? In closed form, from tables of what robots ask for."""
