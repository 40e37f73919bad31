"""What tests, benchmarks and fault experiments start, and how they judge what happened."""
