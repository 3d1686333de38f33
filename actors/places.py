"""What a person can mend when a cluster does not start.

Rule: every such failure is one sentence.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import EADDRINUSE
from pathlib import Path

from actors.broker.registration import BrokerIdTaken
from actors.config import BadConfig
from runtime.embedded import ZooKeeperFailed
from runtime.folder import FolderInUse
from runtime.java import JavaMissing
from runtime.keeper import KeeperUnreachable
from runtime.main import Sentence


@asynccontextmanager
async def failures_as_sentences(zookeeper: str, data: Path | None) -> AsyncIterator[None]:
    """Raise Sentence for what is no bug of ours."""
    try:
        yield
    except KeeperUnreachable:
        raise Sentence(f"no ZooKeeper has answered at {zookeeper}") from None
    except BrokerIdTaken as error:
        raise Sentence(f"{error}: is another cluster running on this ZooKeeper?") from None
    except (JavaMissing, ZooKeeperFailed, FolderInUse, BadConfig) as error:
        raise Sentence(str(error)) from None
    except (FileExistsError, NotADirectoryError) as error:
        raise Sentence(f"{error.filename} is not a folder") from None
    except OSError as error:
        if error.errno == EADDRINUSE:
            raise Sentence(f"the port is taken: {error.strerror}") from None
        raise Sentence(f"{error.filename or data or 'a socket'}: {error.strerror}") from None
