"""How people and programs get in: HTTP, and Kafka's protocol."""
