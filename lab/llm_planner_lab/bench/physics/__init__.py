"""How robots with bodies do: task success in physics beside the kinematic world, and how fast the world runs."""
