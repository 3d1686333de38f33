"""What people import to use a cluster."""
