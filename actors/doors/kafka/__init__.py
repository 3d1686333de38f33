"""Kafka's own protocol: the door for every Kafka client."""
