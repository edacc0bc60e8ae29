"""What a robot can do and how long it takes: robot models (YAML), durations, interpreter, kinematic world."""
