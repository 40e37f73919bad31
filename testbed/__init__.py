"""What both tests and benchmarks start: a Redis of their own, and the shipped applications."""
