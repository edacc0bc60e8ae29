"""Did it work: demo, benchmarks and their pictures."""
