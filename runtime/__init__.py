"""How it runs: actors, time, I/O."""
