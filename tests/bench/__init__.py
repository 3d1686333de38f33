"""Benchmarks: `bin/bench` runs them; the default tests do not."""
