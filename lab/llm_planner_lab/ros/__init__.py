"""What ROS 2 costs: latency, endurance, traces of a running planner."""
