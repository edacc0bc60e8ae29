# SPDX-License-Identifier: Apache-2.0
"""The loop schedule -> execute -> update, and the servers that run it in this process or in a child process."""
