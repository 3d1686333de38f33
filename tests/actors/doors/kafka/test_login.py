"""Who must log in, how, and what is open before: PLAIN and SCRAM-SHA-256."""

import asyncio
import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.cluster import Cluster, Door
from actors.doors.kafka.credentials import MECHANISMS, PLAIN, SCRAM, Credentials, LoginFailed
from actors.token import BadToken, users_of
from tests.support.kafka_caller import KafkaCaller
from tests.support.kafka_clients import AioKafka, Confluent, KafkaPython
from wire.errors import ErrorCode

USERS = {"alice": "wonder land=,", "bob": "builder"}
RANDOM = Random(1).randbytes


@pytest.fixture
def credentials():
    return Credentials(USERS)


# --- the exchange ---------------------------------------------------------------------------------


def test_plain_takes_a_name_and_its_password(credentials):
    assert credentials.begin(PLAIN, RANDOM).answer(b"\0alice\0wonder land=,") == (b"", True)


@pytest.mark.parametrize(
    "token", [b"", b"\0alice\0", b"\0alice\0builder", b"\0nobody\0", b"alice", b"\0\0\0", b"\xff"]
)
def test_plain_refuses_what_is_not_right_in_one_sentence_for_all(credentials, token):
    with pytest.raises(LoginFailed, match="wrong name or password"):
        credentials.begin(PLAIN, RANDOM).answer(token)


@settings(max_examples=50)
@given(st.binary(max_size=60), st.sampled_from(MECHANISMS))
def test_no_token_is_a_crash(token, mechanism):
    exchange = Credentials(USERS).begin(mechanism, RANDOM)
    for each in (token, b"n,,n=alice,r=" + token.replace(b",", b""), b"c=biws,r=" + token):
        try:
            _, is_complete = exchange.answer(each)
        except LoginFailed:
            continue
        assert not is_complete


def test_a_proof_for_another_nonce_is_refused(credentials):
    exchange = credentials.begin(SCRAM, RANDOM)
    exchange.answer(b"n,,n=alice,r=abc")

    with pytest.raises(LoginFailed):
        exchange.answer(b"c=biws,r=abcdef,p=" + b"A" * 44)


def test_a_file_names_users_a_line_each(tmp_path):
    file = tmp_path / "users"
    file.write_text("# who may come in\n\nalice:a:b\nbob: x\n")

    assert users_of(file) == (("alice", "a:b"), ("bob", " x"))
    assert users_of(None) == ()


@pytest.mark.parametrize("text", ["", "# nobody\n", "alice\n", ":secret\n", "alice:\n"])
def test_a_file_that_names_nobody_is_refused_without_showing_it(tmp_path, text):
    file = tmp_path / "users"
    file.write_text(text)

    with pytest.raises(BadToken) as refused:
        users_of(file)
    assert "secret" not in str(refused.value)


# --- on a broker ----------------------------------------------------------------------------------


@pytest.fixture
def guarded(drive, credentials, sim):
    (door,) = [
        each for at, each in drive.node(1).system._actors.items() if at == "broker-1/kafka-door"
    ]
    door._credentials = credentials
    return KafkaCaller(sim)


async def test_without_credentials_there_is_nobody_to_log_in(caller):
    answer = await caller.ask("SaslHandshake", 1, mechanism=PLAIN)

    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await caller.ask("Metadata", 1, topics=None)).brokers


async def test_nothing_is_served_before_the_login_but_what_is_spoken(guarded):
    assert (await guarded.ask("ApiVersions", 0)).api_keys

    guarded.say("Metadata", 1, topics=None)

    assert not guarded.line.is_open
    assert guarded.line.heard[1:] == []
    assert guarded.line.refusal == "Metadata of somebody who has not logged in"


async def test_after_the_login_all_is_served(guarded):
    handshake = await guarded.ask("SaslHandshake", 1, mechanism=PLAIN)
    done = await guarded.ask("SaslAuthenticate", 2, auth_bytes=b"\0bob\0builder")

    assert (handshake.error_code, done.error_code) == (0, 0)
    assert set(handshake.mechanisms) == set(MECHANISMS)
    assert (await guarded.ask("Metadata", 1, topics=None)).brokers
    again = await guarded.ask("SaslHandshake", 1, mechanism=PLAIN)
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_a_wrong_password_is_told_and_ends_the_connection(guarded):
    await guarded.ask("SaslHandshake", 1, mechanism=PLAIN)

    answer = await guarded.ask("SaslAuthenticate", 2, auth_bytes=b"\0bob\0wrong")

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not guarded.line.is_open


async def test_a_mechanism_that_nobody_speaks_is_refused_with_those_that_are_spoken(guarded):
    answer = await guarded.ask("SaslHandshake", 1, mechanism="GSSAPI")

    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(answer.mechanisms) == set(MECHANISMS)


async def test_a_token_without_a_handshake_ends_the_connection(guarded):
    answer = await guarded.ask("SaslAuthenticate", 0, auth_bytes=b"\0bob\0builder")

    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not guarded.line.is_open


async def test_the_oldest_handshake_is_followed_by_bare_tokens(sim, guarded):
    await guarded.ask("SaslHandshake", 0, mechanism=PLAIN)

    guarded.line.say(b"\0bob\0builder")

    assert guarded.line.heard[1] == b""
    assert (await guarded.ask("Metadata", 1, topics=None)).brokers


async def test_a_bare_token_that_is_wrong_ends_the_connection(guarded):
    await guarded.ask("SaslHandshake", 0, mechanism=PLAIN)

    guarded.line.say(struct.pack(">i", 5))

    assert not guarded.line.is_open


@pytest.mark.filterwarnings("ignore")
async def test_other_peoples_clients_log_in_by_both_mechanisms(zookeeper):
    hosts = zookeeper.hosts + zookeeper.chroot()
    door = Door(users=tuple(USERS.items()))
    async with Cluster(1, zookeeper=hosts, door=door) as cluster:
        for mechanism in MECHANISMS:
            for family in (KafkaPython, AioKafka):
                client = family(cluster.bootstrap_servers)
                client._servers |= {
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_mechanism": mechanism,
                    "sasl_plain_username": "alice",
                    "sasl_plain_password": USERS["alice"],
                }
                assert await asyncio.to_thread(client.topics) == set()
            confluent = Confluent(cluster.bootstrap_servers)
            confluent._servers |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "bob",
                "sasl.password": USERS["bob"],
            }
            assert await asyncio.to_thread(confluent.topics) == set()
