"""What a broker's process is told of its doors and its settings, as bin/run-broker reads it.

Rule: what a cluster was given is written back as arguments; nothing is decided here.
"""

from collections.abc import Mapping
from typing import Any

from actors.cluster import Door


def door_arguments(door: Door, kafka_port: int) -> list[str]:
    """Where it listens, and whom it lets in."""
    arguments = ["--host", door.host, "--kafka-port", str(kafka_port)]
    if door.users_file is not None:
        arguments += ["--sasl-file", str(door.users_file)]
    if door.advertised_host is not None:
        arguments += ["--advertised-host", door.advertised_host]
    return arguments


def setting_arguments(settings: Mapping[str, Any]) -> list[str]:
    """Settings by Kafka's keys."""
    arguments = []
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments += ["--override", f"{name.replace('_', '.')}={text}"]
    return arguments
