"""The command line: ``llm-planner``."""
