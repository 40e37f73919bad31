"""What tests, benchmarks and trials of faults start, and how they judge what happened."""
