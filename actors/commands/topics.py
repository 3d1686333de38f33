"""bin/topics: as kafka-topics.

Rule: Kafka's flags in, Kafka's columns out.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from actors.clients import Clients
from actors.commands.common import (
    command_parser,
    config_pairs,
    given_as,
    one_of,
    print_json,
    run_command,
    say,
)
from actors.operations import topics
from actors.operations.operation import BadInput

ACTIONS = ("create", "list", "describe", "alter", "delete")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "topics",
        "Create, list, describe, alter or delete topics.",
        "--bootstrap-server 127.0.0.1:9092 --create --topic orders --partitions 6 "
        "--replication-factor 3",
    )
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--topic", metavar="NAME", help="for --describe: all, if it is left out")
    parser.add_argument("--partitions", type=int, metavar="N")
    parser.add_argument("--replication-factor", type=int, metavar="N")
    parser.add_argument(
        "--replica-assignment",
        metavar="1:2:3,2:3:1",
        help="the brokers of each partition, the preferred leader first",
    )
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--if-not-exists", action="store_true")
    parser.add_argument("--if-exists", action="store_true")
    for name in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        parser.add_argument(f"--{name}-partitions", action="store_true")
    parser.add_argument("--exclude-internal", action="store_true")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    action = one_of(given, parser, *ACTIONS)
    if action in ("create", "alter", "delete") and not given.topic:
        parser.error(f"--{action} needs --topic")
    if action == "alter" and given.partitions is None:
        parser.error("--alter needs --partitions; settings are changed with bin/configs")
    if action in ("alter", "delete", "list") and given.config:
        parser.error(f"--config goes with --create; after that with bin/configs, not --{action}")
    return run_command(parser, given, WORK[action])


async def _create(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(
        topics.CreateTopic,
        topic=given.topic,
        partitions=given.partitions,
        replication_factor=given.replication_factor,
        replica_assignment=_assignment(given.replica_assignment),
        configs=config_pairs(given.config),
        if_not_exists=given.if_not_exists,
    )
    created = await topics.create_topic(clients, wanted)
    if given.json:
        print_json(created)
    elif created.is_new:
        say(f"Created topic {created.topic}.")
    else:
        say(f"Topic {created.topic} was there already.")


async def _list(clients: Clients, given: argparse.Namespace) -> None:
    wanted = topics.ListTopics(exclude_internal=given.exclude_internal)
    names = await topics.list_topics(clients, wanted)
    if given.json:
        print_json(names)
        return
    for name in names.topics:
        say(name)


async def _describe(clients: Clients, given: argparse.Namespace) -> None:
    names = None if given.topic is None else given.topic.split(",")
    wanted = given_as(
        topics.DescribeTopics,
        topics=names,
        exclude_internal=given.exclude_internal,
        under_replicated=given.under_replicated_partitions,
        unavailable=given.unavailable_partitions,
        under_min_isr=given.under_min_isr_partitions,
        at_min_isr=given.at_min_isr_partitions,
    )
    found = await topics.describe_topics(clients, wanted)
    if given.json:
        print_json(found)
        return
    for topic in found:
        if not wanted.is_filtered:
            say(heading(topic))
        for partition in topic.partitions:
            say(partition_line(topic.topic, partition))


async def _alter(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(
        topics.AlterTopic,
        topic=given.topic,
        partitions=given.partitions,
        replica_assignment=_assignment(given.replica_assignment),
    )
    await topics.alter_topic(clients, wanted)
    _done(given, f"Topic {given.topic} has {given.partitions} partitions.")


async def _delete(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(topics.DeleteTopic, topic=given.topic, if_exists=given.if_exists)
    await topics.delete_topic(clients, wanted)
    _done(given, f"Topic {given.topic} is deleted.")


def _done(given: argparse.Namespace, sentence: str) -> None:
    if given.json:
        print_json({"done": True})
    else:
        say(sentence)


def heading(topic: topics.TopicDescription) -> str:
    """The line that kafka-topics begins a topic with."""
    configs = ",".join(f"{key}={of}" for key, of in sorted(topic.configs.items()))
    return (
        f"Topic: {topic.topic}\tTopicId: {topic.topic_id or ''}\t"
        f"PartitionCount: {topic.partition_count}\t"
        f"ReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
    )


def partition_line(topic: str, partition: topics.PartitionDescription) -> str:
    """The line of one partition."""
    leader = "none" if partition.leader is None else partition.leader
    line = (
        f"\tTopic: {topic}\tPartition: {partition.partition}\tLeader: {leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}"
    )
    if partition.adding or partition.removing:
        line += (
            f"\tAdding Replicas: {ids(partition.adding)}"
            f"\tRemoving Replicas: {ids(partition.removing)}"
        )
    return line


def ids(brokers: Sequence[int]) -> str:
    """A list of brokers."""
    return ",".join(map(str, brokers))


def _assignment(text: str | None) -> list[list[int]] | None:
    if text is None:
        return None
    parts: list[list[int]] = []
    for part in text.split(","):
        brokers = part.split(":")
        if not all(each.strip().isdecimal() for each in brokers):
            raise BadInput(
                f"--replica-assignment has {part!r:.50}; it must be broker numbers such as 1:2:3"
            )
        parts.append([int(each) for each in brokers])
    return parts


WORK: dict[str, Any] = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}
