"""The demo: what it flies, and whether it worked."""
