"""A large LeaderAndIsr coded by plain msgpack: the rival that wire/codec.py is measured against."""

import msgpack

from wire.control import LeaderAndIsr, LeaderAndIsrPartition
from wire.ids import BrokerEpoch, BrokerId, ControllerEpoch, Node, TopicPartition


def leader_and_isr(partitions: int) -> LeaderAndIsr:
    brokers = (BrokerId(0), BrokerId(1), BrokerId(2))
    return LeaderAndIsr(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(3),
        broker_epoch=BrokerEpoch(123456789),
        partitions=tuple(
            LeaderAndIsrPartition(
                partition=TopicPartition(f"topic-{number // 100}", number % 100),
                controller_epoch=ControllerEpoch(3),
                leader=brokers[number % 3],
                leader_epoch=number % 7,
                isr=brokers,
                partition_epoch=number % 9,
                replicas=brokers,
            )
            for number in range(partitions)
        ),
        live_leaders=tuple(Node(broker, "localhost", 9092 + broker) for broker in brokers),
    )


def pack_by_hand(request: LeaderAndIsr) -> bytes:
    return msgpack.packb(
        (
            100,
            request.controller_id,
            request.controller_epoch,
            request.broker_epoch,
            [
                (
                    (each.partition.topic, each.partition.partition),
                    each.controller_epoch,
                    each.leader,
                    each.leader_epoch,
                    each.isr,
                    each.partition_epoch,
                    each.replicas,
                    each.adding_replicas,
                    each.removing_replicas,
                    each.is_new,
                )
                for each in request.partitions
            ],
            [(node.id, node.host, node.port, node.rack) for node in request.live_leaders],
            request.topic_ids,
            request.sequence,
        )
    )


def unpack_by_hand(data: bytes) -> LeaderAndIsr:
    said = msgpack.unpackb(data, use_list=False)
    _, controller, epoch, broker_epoch, rows, nodes, ids, sequence = said
    return LeaderAndIsr(
        controller_id=controller,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        partitions=tuple(
            [
                LeaderAndIsrPartition(
                    partition=TopicPartition(topic, number),
                    controller_epoch=controller_epoch,
                    leader=leader,
                    leader_epoch=leader_epoch,
                    isr=isr,
                    partition_epoch=partition_epoch,
                    replicas=replicas,
                    adding_replicas=adding,
                    removing_replicas=removing,
                    is_new=is_new,
                )
                for (
                    (topic, number),
                    controller_epoch,
                    leader,
                    leader_epoch,
                    isr,
                    partition_epoch,
                    replicas,
                    adding,
                    removing,
                    is_new,
                ) in rows
            ]
        ),
        live_leaders=tuple([Node(*node) for node in nodes]),
        topic_ids=ids,
        sequence=sequence,
    )
