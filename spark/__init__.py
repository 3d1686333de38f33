"""What happened: jobs over traces."""
