"""What bin/run-cluster does: a cluster until somebody stops it.

Rule: every failure that a person can mend is one sentence.
"""

from collections.abc import Callable
from pathlib import Path

from actors.broker.registration import BrokerIdTaken
from actors.cluster import Cluster
from runtime.embedded import ZooKeeperFailed
from runtime.folder import FolderInUse
from runtime.java import JavaMissing
from runtime.keeper import KeeperUnreachable
from runtime.main import Sentence, forever


async def serve(
    *,
    brokers: int,
    zookeeper: str | None,
    data: Path | None,
    trace: Path | None,
    announce: Callable[[str], None],
) -> None:
    """Run a cluster until cancelled, telling what happens line by line."""
    cluster = Cluster(
        brokers=brokers, zookeeper=zookeeper, data=data, trace=trace, announce=announce
    )
    try:
        async with cluster:
            who = "1 broker is" if brokers == 1 else f"{brokers} brokers are"
            announce(f"{who} up; Ctrl-C stops {'it' if brokers == 1 else 'them'}")
            await forever()
    except KeeperUnreachable:
        raise Sentence(f"no ZooKeeper has answered at {zookeeper or cluster.zookeeper}") from None
    except BrokerIdTaken as error:
        raise Sentence(f"{error}: is another cluster running on this ZooKeeper?") from None
    except (JavaMissing, ZooKeeperFailed, FolderInUse) as error:
        raise Sentence(str(error)) from None
    except (FileExistsError, NotADirectoryError) as error:
        raise Sentence(f"{error.filename} is not a folder") from None
    except OSError as error:
        raise Sentence(f"{error.filename or data or 'a socket'}: {error.strerror}") from None
