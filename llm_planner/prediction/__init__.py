"""How long will it take: what an engine needs for a step, as data."""
