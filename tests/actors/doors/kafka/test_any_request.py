"""Whatever a client says: each API of the table, its versions, and bytes that are nearly so."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.doors.kafka.call import Api
from actors.doors.kafka.table import APIS
from runtime.simulation.simulator import Simulator, run
from tests.support.drive import Drive
from tests.support.kafka_caller import KafkaCaller, framed, requests_of, understood

PATIENCE_MS = 60_000
NO_ANSWER = frozenset({"Produce"})  # with acks=0
# What waits as long as it was told to: with a foolish time that is for weeks.
WAITS = frozenset({"Fetch"})
LOGIN = frozenset({"SaslHandshake", "SaslAuthenticate"})
EXAMPLES = settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


async def listened_to(frames: list[tuple[Api, int, bytes]]) -> None:
    """Each on a connection of its own: answered in its form, or the connection's end."""
    async with Simulator(seed=1) as sim:
        drive = await Drive.start(sim, brokers=1)
        await drive.create("orders", [1])
        callers = []
        for api, version, frame in frames:
            caller = KafkaCaller(sim)
            caller.line.say(frame)
            callers.append((api, version, caller))
        await sim.sleep(PATIENCE_MS)
        for api, version, caller in callers:
            if caller.line.heard:
                number, _ = understood(api, version, caller.line.heard[0])
                assert number == 1
            elif caller.line.is_open:
                assert api.name in NO_ANSWER | WAITS, f"{api.name} {version} is not answered"
        node = drive.node(1)
        assert node.system.is_up, node.system.error
        assert (await KafkaCaller(sim).ask("Metadata", 1, topics=None)).brokers


def both_ends(api: Api) -> list[int]:
    return sorted({api.least, (api.least + api.most) // 2, api.most})


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_any_request_of_an_api_is_answered_or_ends_its_connection(api: Api):
    @EXAMPLES
    @given(st.data())
    def says(data):
        frames = [
            (api, version, framed(api, version, data.draw(requests_of(api, version))))
            for version in both_ends(api)
            for _ in range(3)
        ]
        run(lambda: listened_to(frames))

    says()


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_bytes_that_are_nearly_a_request_harm_nobody(api: Api):
    @EXAMPLES
    @given(st.data())
    def says(data):
        frames = []
        for version in both_ends(api):
            frame = framed(api, version, data.draw(requests_of(api, version)))
            body = bytearray(frame[15:])
            for _ in range(data.draw(st.integers(0, 3))):
                if body:
                    at = data.draw(st.integers(0, len(body) - 1))
                    body[at] = data.draw(st.integers(0, 255))
            cut = data.draw(st.integers(0, len(body)))
            frames.append((api, version, frame[:15] + bytes(body[:cut])))
            frames.append((api, version, frame[:15] + data.draw(st.binary(max_size=60))))
        run(lambda: listened_to(frames))

    says()
