"""What Kafka's clients may ask here.

Rule: one row an API, in its file; this is the list of them. ApiVersions answers from it, and so
does the documentation.
"""

from collections.abc import Mapping
from typing import Final

from actors.doors.kafka import api_versions, fetch, list_offsets, metadata, produce
from actors.doors.kafka.call import Api

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    api_versions.API,
)
BY_KEY: Final[Mapping[int, Api]] = {each.key: each for each in APIS}
