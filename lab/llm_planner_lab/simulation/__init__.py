"""The same loop in virtual time: traces, simulated engine, simulated robots."""
