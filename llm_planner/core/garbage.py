# SPDX-License-Identifier: Apache-2.0
"""When the garbage collector runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Keeps the garbage collector off while modules and models are loaded: nearly all objects made then stay.

    It would go through all of them again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
