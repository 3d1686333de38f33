"""The jobs: a file each, a table each."""
