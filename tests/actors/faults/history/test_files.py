"""Histories as files."""

import pytest

from actors.faults.history import files
from actors.faults.history.events import Failed, Polled, Sent
from actors.faults.history.files import BadHistory, read_history
from tests.actors.faults.history.planted import Planted


def test_a_history_is_read_as_it_was_written(tmp_path):
    history = Planted()
    history.send("ä\n", 0, is_idempotent=True)
    history.failed(history.send("b"), ValueError("no"), is_certain=True)
    history.read(["ä\n"])
    history.commit(1)
    history.see_commit(None)
    path = tmp_path / "history.jsonl"

    history.write(path)

    assert read_history(path) == history.events
    assert len(path.read_text().splitlines()) == len(history.events)


def test_any_client_may_write_one(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(
        '{"event":"sent","at_ms":1,"client":"p","id":"1","topic":"t","value":"a","host":"x"}\n'
        "\n"
        '{"event":"failed","at_ms":2.5,"id":"1","error":"timed out"}\n'
        '{"at_ms":3,"client":"c","topic":"t","partition":0,"offset":0,"value":"a","event":"polled"}'
    )

    assert read_history(path) == [
        Sent(at_ms=1, client="p", id="1", topic="t", value="a"),
        Failed(at_ms=2.5, id="1", error="timed out"),
        Polled(at_ms=3, client="c", topic="t", partition=0, offset=0, value="a"),
    ]


def test_the_example_of_the_documentation_is_one(tmp_path):
    text = files.__doc__.split("events.py:\n")[1].split("`acks`")[0]
    lines = text.replace("(on one line, as all are)", "").replace(",\n     ", ",")
    path = tmp_path / "history.jsonl"
    path.write_text(lines)

    assert len(read_history(path)) == 9


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{", "line 2: input data was truncated"),
        (b"[]", "line 2: expected `object`, got `array`"),
        (b'{"event":"eaten"}', "line 2: event: invalid value 'eaten'"),
        (b'{"at_ms":1}', "line 2: object missing required field `event`"),
        (b'{"event":"failed","at_ms":1,"id":"x"}', "line 2: object missing .* `error`"),
        (
            b'{"event":"end_seen","at_ms":1,"client":"c","topic":"t","partition":0,"offset":-2}',
            "line 2: offset: expected `int` >= 0",
        ),
        (b'{"event":"sent","at_ms":"now"}', "line 2: at_ms: expected `float`, got `str`"),
        (b'{"event":"\xff"}', "line 2: "),
        (b"[" * 100_000, "line 2: "),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path, line, sentence):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"event":"failed","at_ms":1,"id":"x","error":"e"}\n' + line + b"\n")

    with pytest.raises(BadHistory, match=sentence) as raised:
        read_history(path)

    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300 + len(str(path))


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b" " * (files.MOST_LINE_BYTES + 1))

    with pytest.raises(BadHistory, match="line 1: it is longer than 1048576 bytes"):
        read_history(path)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(BadHistory, match="none cannot be read: No such file or directory"):
        read_history(tmp_path / "none")
