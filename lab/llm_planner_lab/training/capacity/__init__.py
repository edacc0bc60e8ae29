"""How are throughput models made? ALA as printed, the default method, baselines, splits, figures."""
