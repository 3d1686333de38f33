"""What people type: arguments in, one operation, words or JSON out."""
