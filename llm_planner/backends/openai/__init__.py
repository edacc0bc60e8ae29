# SPDX-License-Identifier: Apache-2.0
"""Any OpenAI-compatible server as a backend: our scheduler withholds admission, the server does the rest."""
