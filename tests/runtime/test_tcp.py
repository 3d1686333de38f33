"""Frames over real sockets, and callers who send too much, too little, or never read."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.listener import Caller
from runtime.tcp import TcpListener
from runtime.tcp_connection import SCRATCH_BYTES, Limits
from runtime.tracing import Trace
from tests.support.mailbox import Mailbox
from wire.trace import FrameRefused

LARGE = 3 * SCRATCH_BYTES
WHILE_S = 20


class Echo:
    """Sends each frame back, unless it holds them back."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.taken: list[bytes] = []
        self.times = 1
        self.has_ended = asyncio.Event()

    def take(self, frame: memoryview) -> None:
        self.taken.append(bytes(frame))
        for _ in range(self.times):
            self.caller.send((bytes(frame[:2]), bytes(frame[2:])))

    def ended(self) -> None:
        self.has_ended.set()


class Place:
    """A listener, and what it says."""

    def __init__(self, listener: TcpListener) -> None:
        self.listener = listener
        self.echoes: list[Echo] = []
        self.refusals = Mailbox()

    def converse(self, caller: Caller) -> Echo:
        self.echoes.append(Echo(caller))
        return self.echoes[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)


@asynccontextmanager
async def place(port: int = 0, **limits) -> AsyncIterator[Place]:
    trace = Trace(now_s=time.perf_counter, epoch_us=0)
    listener = TcpListener(trace.at("test"), port=port, limits=Limits(**limits))
    await listener.bind()
    place = Place(listener)
    trace.listeners.append(lambda _, event: place.refusals.tell(event))
    await listener.serve(place.converse)
    try:
        yield place
    finally:
        await listener.close()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def heard(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(WHILE_S):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)


async def end_of(reader: asyncio.StreamReader) -> None:
    """Wait until the connection is closed, in good order or not."""
    async with asyncio.timeout(WHILE_S):
        try:
            while await reader.read(1 << 20):
                pass
        except ConnectionError:
            pass


async def says(place: Place, body: bytes = b"still there") -> bytes:
    """What a new caller hears."""
    reader, writer = await place.connect()
    writer.write(framed(body))
    answer = await heard(reader)
    writer.close()
    return answer


SIZES = st.one_of(st.integers(0, 40), st.sampled_from([SCRATCH_BYTES, SCRATCH_BYTES + 1, LARGE]))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(SIZES, min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 3 * LARGE), max_size=6),
)
def test_frames_come_whole_and_in_order_however_they_are_cut(sizes, cuts):
    bodies = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    data = b"".join(map(framed, bodies))
    ends = sorted({cut for cut in cuts if cut < len(data)} | {len(data)})

    async def run() -> None:
        async with place() as there:
            reader, writer = await there.connect()
            start = 0
            for end in ends:
                writer.write(data[start:end])
                await writer.drain()
                await asyncio.sleep(0)
                start = end
            assert [await heard(reader) for _ in bodies] == bodies
            assert there.listener.reserved == 0
            writer.close()

    asyncio.run(run())


@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_at_all_harm_nobody(data):
    async def run() -> None:
        async with place(frame_bytes=1_000) as there:
            _, writer = await there.connect()
            writer.write(data)
            writer.close()
            assert await says(there) == b"still there"

    asyncio.run(run())


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
async def test_a_length_that_no_frame_has_ends_the_connection(size):
    async with place(frame_bytes=1_000) as there:
        reader, writer = await there.connect()

        writer.write(struct.pack(">i", size) + b"whatever")

        await end_of(reader)
        refusal = await there.refusals.next()
        assert isinstance(refusal, FrameRefused)
        assert refusal.reason == f"a frame of {size} bytes"
        assert await says(there) == b"still there"
        writer.close()


@pytest.mark.parametrize("size", [100, LARGE])
async def test_a_frame_that_stops_half_way_ends_its_connection_in_time(size):
    async with place(stalled_s=0.2) as there:
        reader, writer = await there.connect()

        writer.write(struct.pack(">i", size) + b"half")

        await end_of(reader)
        assert "ends after" in (await there.refusals.next()).reason
        assert there.listener.reserved == 0
        writer.close()


async def test_large_frames_wait_until_there_is_room_for_them():
    async with place(reserved_bytes=LARGE + 1) as there:
        first, first_writer = await there.connect()
        first_writer.write(framed(b"a" * LARGE)[:-1])
        second, second_writer = await there.connect()
        second_writer.write(framed(b"b" * LARGE))
        small, small_writer = await there.connect()
        small_writer.write(framed(b"c"))
        assert await heard(small) == b"c"
        assert there.listener.reserved == LARGE

        first_writer.write(b"a")

        assert await heard(first) == b"a" * LARGE
        assert await heard(second) == b"b" * LARGE
        assert there.listener.reserved == 0
        for each in (first_writer, second_writer, small_writer):
            each.close()


async def test_who_leaves_half_way_gives_the_room_back():
    async with place(reserved_bytes=LARGE + 1) as there:
        _, first_writer = await there.connect()
        first_writer.write(framed(b"a" * LARGE)[:-1])
        second, second_writer = await there.connect()
        assert await says(there) == b"still there"
        second_writer.write(framed(b"b" * LARGE))

        first_writer.close()

        assert await heard(second) == b"b" * LARGE
        second_writer.close()


async def test_who_does_not_read_is_let_go_and_others_are_served():
    async with place(unread_bytes=LARGE, stalled_s=60) as there:
        reader, writer = await there.connect()
        writer.write(framed(b"x"))
        await heard(reader)
        there.echoes[0].times = 200

        writer.write(framed(b"x" * LARGE))

        assert "sent and not read" in (await there.refusals.next()).reason
        assert await says(there) == b"still there"
        writer.close()


async def test_who_reads_too_slowly_is_asked_for_no_more_and_let_go_in_time():
    async with place(stalled_s=0.2) as there:
        reader, writer = await there.connect()
        writer.write(framed(b"x"))
        await heard(reader)
        there.echoes[0].times = 100

        writer.write(framed(b"x" * LARGE) + framed(b"not taken"))

        assert "are not read" in (await there.refusals.next()).reason
        assert there.echoes[0].taken == [b"x", b"x" * LARGE]
        writer.close()


async def test_one_connection_too_many_is_refused():
    async with place(connections=2) as there:
        held = [await there.connect() for _ in range(2)]
        for reader, writer in held:
            writer.write(framed(b"hello"))
            await heard(reader)

        reader, writer = await there.connect()

        await end_of(reader)
        assert (await there.refusals.next()).reason == "2 connections are open"
        for each in (*held, (reader, writer)):
            each[1].close()


async def test_who_says_nothing_for_very_long_is_asked_to_go():
    async with place(stalled_s=0.1, idle_s=0.1) as there:
        reader, writer = await there.connect()

        await end_of(reader)

        await there.echoes[0].has_ended.wait()
        assert there.listener.connections == {}
        writer.close()


async def test_what_is_held_back_comes_later_in_its_order():
    async with place() as there:
        reader, writer = await there.connect()
        writer.write(framed(b"first"))
        assert await heard(reader) == b"first"
        there.echoes[0].caller.hold()
        bodies = [b"a", b"b" * LARGE, b"c", b"d" * LARGE]
        for body in bodies:
            writer.write(framed(body))
        assert await says(there) == b"still there"
        assert there.echoes[0].taken == [b"first"]

        there.echoes[0].caller.go_on()

        assert [await heard(reader) for _ in bodies] == bodies
        writer.close()


async def test_a_pause_reads_nothing_and_ends_no_connection():
    async with place(stalled_s=0.1) as there:
        reader, writer = await there.connect()
        there.listener.pause()
        writer.write(framed(b"in the pause"))
        late, late_writer = await there.connect()
        late_writer.write(framed(b"come in the pause"))
        await asyncio.sleep(0.3)  # the pause itself
        assert all(each.taken == [] for each in there.echoes)

        there.listener.resume()

        assert await heard(reader) == b"in the pause"
        assert await heard(late) == b"come in the pause"
        writer.close()
        late_writer.close()


async def test_an_abort_resets_its_connections_and_the_port_is_there_for_the_next_life():
    async with place() as there:
        reader, writer = await there.connect()
        writer.write(framed(b"x"))
        await heard(reader)

        there.listener.abort()

        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await there.echoes[0].has_ended.wait()
        with pytest.raises(ConnectionRefusedError):
            await there.connect()
        async with place(port=there.listener.port) as again:
            assert await says(again) == b"still there"
        writer.close()


async def test_a_close_sends_what_is_on_its_way():
    async with place() as there:
        reader, writer = await there.connect()
        writer.write(framed(b"x" * LARGE))
        await reader.readexactly(4)

        closing = asyncio.create_task(there.listener.close())

        assert await reader.readexactly(LARGE) == b"x" * LARGE
        await closing
        writer.close()
