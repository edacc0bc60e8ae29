# SPDX-License-Identifier: Apache-2.0
"""Did it work: demo, benchmarks and their pictures."""
