"""What an administrator asks for, thought through before anybody acts on it."""
