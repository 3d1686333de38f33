"""The plugin in somebody else's project: real pytest processes."""

import pyarrow.parquet as pq
import pytest

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_mode = auto\n"
PASSING = """
import pytest
from actors.testing import isr, leader

@pytest.mark.cluster(brokers=3)
async def test_virtual(sim, faults):
    await sim.admin().create_topic("orders", assignments={0: (1, 2, 3)})
    await faults.kill(1)
    await sim.until(leader("orders") != 1)

async def test_real(cluster):
    await cluster.admin().create_topic("orders", assignments={0: (1, 2)})
    await cluster.until(isr("orders") == {1, 2})

def test_blocking(blocking_cluster):
    blocking_cluster.create_topic("orders", assignments={0: (1, 2)})
    blocking_cluster.until(isr("orders") == {1, 2})

def test_of_nobody_s_business():
    assert True is not False
"""


@pytest.fixture
def project(pytester):
    pytester.makefile(".ini", pytest=INI)
    return pytester


def test_a_failure_tells_its_seed_how_to_replay_it_and_what_happened(project):
    project.makepyfile(
        """
        from actors.testing import isr

        async def test_orders(sim, faults):
            await sim.admin().create_topic("orders", assignments={0: (1, 2, 3)})
            await faults.kill(3)
            await sim.until(isr("orders") == {1, 2})
            assert await sim.until(isr("orders") == {3}, timeout_ms=100)
        """
    )

    result = project.runpytest_subprocess("--cluster-seed", "42")

    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "isr('orders', 0) == {3} was not so within 100 ms: isr('orders', 0) is {1, 2}" in text
    assert "--cluster-seed 42" in text
    assert "test_orders" in text
    assert "fault: kill broker 3" in text
    assert "broker 3 is down: killed" in text


def test_all_fixtures_work_side_by_side_under_xdist(project):
    project.makepyfile(test_one=PASSING, test_two=PASSING)

    result = project.runpytest_subprocess("-n", "2")

    result.assert_outcomes(passed=8)


def test_strict_mode_needs_the_mark_and_nothing_else(pytester):
    pytester.makefile(".ini", pytest="[pytest]\nasyncio_mode = strict\n")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.asyncio
        async def test_it(sim):
            assert sim.view().controller > 0
        """
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ("brokers=0", "brokers"),
        ("broker=3", "broker"),
        ("config={'min.insync.replica': 2}", "min.insync.replicas is the nearest"),
    ],
)
def test_a_wrong_mark_is_one_sentence(project, mark, sentence):
    project.makepyfile(
        f"""
        import pytest

        @pytest.mark.cluster({mark})
        async def test_it(sim):
            pass
        """
    )

    result = project.runpytest_subprocess()

    assert result.ret != 0
    assert sentence in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_one_seed_is_one_trace_and_it_can_be_kept(project):
    project.makepyfile(
        """
        async def test_it(sim):
            await sim.admin().create_topic("orders", partitions=3, replication_factor=2)
        """
    )

    for folder in ("first", "second"):
        options = ("--cluster-seed", "5", "--cluster-trace-dir", folder)
        project.runpytest_subprocess(*options).assert_outcomes(passed=1)

    first, second = (found_in(project.path / name) for name in ("first", "second"))
    assert first == second
    (elected,) = {path for path in first if "LeaderElected" in path.parts}
    rows = pq.ParquetFile(project.path / "first" / elected).read().to_pylist()
    assert [row["partition"] for row in rows] == [0, 1, 2]
    options = ("--cluster-seed", "6", "--cluster-trace-dir", "third")
    project.runpytest_subprocess(*options).assert_outcomes(passed=1)
    assert set(found_in(project.path / "third").values()) != set(first.values())


def found_in(folder):
    """The parts of a trace, byte for byte."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}
