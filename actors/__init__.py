"""Who acts: the controller and the brokers."""
