"""A replica's log on disk: Kafka's files, byte for byte."""
