# SPDX-License-Identifier: Apache-2.0
"""The loop schedule -> execute -> update, and the server that runs it in a child process."""
