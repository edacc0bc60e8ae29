"""A campaign of faults against a whole fleet: real processes, a seeded schedule, and what must hold whatever happens."""
