"""Records through three brokers and onto three disks, against bare Python with the same bytes.

Producing and fetching use prebuilt batches and the clients' own requests, so that brokers and
replication are measured and not a client's packing of records. Disks are files in the page cache,
on both sides.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import batched_or_none  # placeholder
