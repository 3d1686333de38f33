"""What is said: values, and their bytes."""
