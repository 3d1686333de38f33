"""Metadata of topics that are not there, for clients that want them to be.

Rule: whoever asks is told to come back before anything is written (auto.create.topics.enable).
"""

from msgspec.structs import replace

from actors.administration.auto_topics import auto_creatable
from actors.broker.metadata import MetadataCache
from actors.config import BrokerConfig
from wire.errors import ErrorCode
from wire.metadata import Metadata, MetadataResponse


def describe_or_create(
    cache: MetadataCache, request: Metadata, config: BrokerConfig
) -> tuple[MetadataResponse, tuple[str, ...]]:
    """What a client may know, and which topics are to be created for it."""
    response = cache.describe(request)
    is_wanted = request.allow_auto_topic_creation and config.auto_create_topics_enable
    if not is_wanted or not cache.brokers:  # a broker that was told nothing yet knows no topic
        return response, ()
    missing = [each.topic for each in response.topics if each.topic not in cache.topics]
    if not missing:
        return response, ()
    replicas, live = config.default_replication_factor, len(cache.brokers)
    codes = {each: auto_creatable(each, replicas=replicas, live_brokers=live) for each in missing}
    topics = tuple(
        replace(each, error_code=codes[each.topic]) if each.topic in codes else each
        for each in response.topics
    )
    wanted = (each for each, code in codes.items() if code is ErrorCode.LEADER_NOT_AVAILABLE)
    return replace(response, topics=topics), tuple(wanted)
