"""The only place that imports rclpy: planner node, robot nodes, conversions, composition."""
