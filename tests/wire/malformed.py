"""What no znode of JSON may hold; each file of znodes is tried with all of it."""

import json
from collections.abc import Callable, Iterator

import pytest

from wire.errors import MalformedZNode

NOT_JSON = (
    b"",
    b"null",
    b"7",
    b"[]",
    b'"text"',
    b"{",
    b"{}",
    b"{'version':1}",
    b'{"version":1}',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"[" * 100_000,
    b'{"a":' * 100_000,
)


def assert_refuses_malformed(path: str, sound: bytes, decode: Callable[[bytes], object]) -> None:
    """Whatever is done to sound bytes, they are refused by a MalformedZNode that names the path."""
    decode(sound)
    for data in (*NOT_JSON, sound + b"x", sound[:-1], *_damaged(sound), *_hostile(sound)):
        with pytest.raises(MalformedZNode) as caught:
            raise AssertionError(f"{data[:200]!r} was read as {decode(data)}")
        assert caught.value.path == path
        assert str(caught.value).startswith(f"{path} is malformed: ")


def _damaged(sound: bytes) -> Iterator[bytes]:
    """Each key taken away, and each value replaced by one of a type or size that none may have."""
    fields = json.loads(sound)
    for key in fields:
        yield json.dumps({name: value for name, value in fields.items() if name != key}).encode()
        for absurd in (None, True, 1.5, -2, 2**70, "absurd\n", [[]], [None], {"": None}):
            yield json.dumps({**fields, key: absurd}).encode()


def _hostile(sound: bytes) -> Iterator[bytes]:
    """Keys that nobody knows are skipped, but not whatever they hold."""
    yield sound[:-1] + b',"unknown":"\xff"}'
    yield sound[:-1] + b',"unknown":' + b"[" * 100_000 + b"}"


def assert_reads_any_order_and_unknown_keys(
    sound: bytes, decode: Callable[[bytes], object]
) -> None:
    fields = json.loads(sound)
    reversed_keys = dict(reversed(fields.items()))
    with_strangers = {"stranger": {"a": [1, None]}, **fields, "another": 1.5}
    indented = json.dumps(fields, indent=2)

    for text in (json.dumps(reversed_keys), json.dumps(with_strangers), indented):
        assert decode(text.encode()) == decode(sound)
