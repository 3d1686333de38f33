"""Settings as people write them."""

import pytest

from actors.config import BadConfig
from actors.properties import read_overrides, read_properties


def test_values_become_what_their_fields_are():
    found = read_overrides(
        [
            "min.insync.replicas=2",
            "unclean.leader.election.enable=TRUE",
            "log.cleaner.min.cleanable.ratio = 0.25",
            "log.cleanup.policy=compact",
        ]
    )

    assert found == {
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": True,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "log.cleanup.policy": "compact",
    }


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("min.insync.replicas", "'min.insync.replicas' is no KEY=VALUE"),
        ("=2", "'=2' is no KEY=VALUE"),
        ("min.insync.replica=2", "min.insync.replicas is the nearest"),
        ("min.insync.replicas=two", "min.insync.replicas is 'two'; it must be a whole number"),
        ("delete.topic.enable=yes", "delete.topic.enable is 'yes'; it must be true or false"),
    ],
)
def test_a_wrong_override_is_a_sentence(pair, sentence):
    with pytest.raises(BadConfig) as raised:
        read_overrides([pair])

    assert sentence in str(raised.value)


def test_a_key_given_twice_is_a_mistake():
    with pytest.raises(BadConfig, match="given twice"):
        read_overrides(["num.partitions=1", "num.partitions=2"])


def test_a_server_properties_is_read_as_java_reads_it(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "# a comment\n! another\n\nbroker.id=0\nnum.partitions: 3\n"
        "log.retention.hours=2\nlog.cleanup.policy=\\\n  compact\nnum.network.threads=3\n"
    )

    settings, ignored = read_properties(file)

    assert settings == {
        "broker.id": 0,
        "num.partitions": 3,
        "log.retention.ms": 7_200_000,
        "log.cleanup.policy": "compact",
    }
    assert ignored == ["num.network.threads"]


def test_the_finer_unit_wins(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.retention.ms=5\nlog.retention.hours=2\n")

    assert read_properties(file)[0] == {"log.retention.ms": 5}


@pytest.mark.parametrize("content", [b"nonsense\n", b"\xff\xfe\n", b"num.partitions=x\n"])
def test_a_file_that_is_none_is_a_sentence(tmp_path, content):
    file = tmp_path / "server.properties"
    file.write_bytes(content)

    with pytest.raises(BadConfig):
        read_properties(file)


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(BadConfig, match="No such file"):
        read_properties(tmp_path / "nothing")
