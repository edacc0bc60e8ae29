"""Did they collide? Somebody walks into a drone's way, in physics; the planner answers in time, late, or never."""
