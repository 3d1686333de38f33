"""The pytest plugin: clusters as fixtures, and their story when a test fails.

Rule: a test that takes none of these fixtures runs as if the plugin were not there. A project's own
fixture of the same name stands before ours, and then all here holds still for it.
"""

import inspect
import os.path
import shlex
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NoReturn

import pytest

from actors.cluster import Cluster, SimulatedCluster
from actors.conditions import brokers_up, controller
from actors.faults.hand import Faults
from actors.faults.node_hand import NodeHand
from actors.node_cluster import NodeCluster
from actors.testing.blocking import SESSION_TIMEOUT_MS, BlockingCluster, BlockingFaults
from actors.testing.marker import Wish, wish_of
from actors.testing.run import Run, folder_name
from actors.testing.shared import SharedZooKeeper
from runtime.simulation.loop import SimulatedLoop, is_simulated
from runtime.simulation.simulator import Simulator

RUN: Final = pytest.StashKey[Run]()
TRACES: Final = pytest.StashKey[Path | None]()
SIMULATED_TIMEOUT_MS: Final = 6_000
SECTION: Final = "cluster"
CLUSTERS: Final = ("sim", "cluster", "blocking_cluster")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say what can be asked for."""
    group = parser.getgroup("cluster", "clusters that fail on command")
    group.addoption(
        "--cluster-seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of simulated clusters: one seed is one run (default: 0)",
    )
    group.addoption(
        "--cluster-trace-dir",
        metavar="DIR",
        help="leave the Parquet trace of every cluster there, one folder a test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known; refuse a folder that cannot be written."""
    config.addinivalue_line(
        "markers",
        "cluster(brokers=3, config={...}, racks={...}, session_timeout_ms=...): "
        "the cluster that the test's fixtures `sim`, `cluster` or `blocking_cluster` should be",
    )
    given = config.getoption("--cluster-trace-dir")
    config.stash[TRACES] = None if given is None else _writable(Path(given).absolute())


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise pytest.UsageError(
            f"--cluster-trace-dir: {folder} cannot be written: {error.strerror}"
        ) from None
    return folder


# --- virtual time ---------------------------------------------------------------------------------


class VirtualTime:
    """Chooses the loop of tests that take `sim`."""

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_asyncio_loop_factories(self) -> dict[str, Callable[[], SimulatedLoop]]:
        """One loop, whose name does not show in the test's."""
        return {"simulated": SimulatedLoop}


VIRTUAL_TIME: Final = VirtualTime()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Have pytest-asyncio ask us for a loop, for tests that take our `sim` and for no others.

    Once a hook is there pytest-asyncio wants an answer for every test, so it is there for a moment.
    """
    if not takes(metafunc.definition, "sim"):
        return (yield)
    plugins = metafunc.config.pluginmanager
    plugins.register(VIRTUAL_TIME)
    try:
        return (yield)
    finally:
        plugins.unregister(VIRTUAL_TIME)


def takes(function: pytest.Function, name: str) -> bool:
    """Whether a test takes our fixture of this name, perhaps through one that extends it."""
    # pytest has no public way to ask which of several fixtures a test will get.
    known = function._fixtureinfo.name2fixturedefs.get(name, ())  # noqa: SLF001
    for definition in reversed(known):
        if definition.func.__module__ == __name__:
            return True
        if name not in definition.argnames:
            return False
    return False


# --- what a test is given -------------------------------------------------------------------------


@pytest.fixture
def cluster_seed(request: pytest.FixtureRequest) -> int:
    """The seed of `sim`; for several, `@pytest.mark.parametrize("cluster_seed", range(5))`."""
    seed: int = request.config.getoption("--cluster-seed")
    return seed


@pytest.fixture(scope="session")
def _cluster_zookeeper() -> Iterator[SharedZooKeeper]:
    server = SharedZooKeeper()
    yield server
    server.close()


def awaited(function: Callable[..., Any]) -> Any:
    """A fixture that is a coroutine, in the loop of the test that takes it.

    In strict mode it must say that it is pytest-asyncio's. Without pytest-asyncio, pytest itself
    says what is missing, and only to tests that are coroutines.
    """
    if find_spec("pytest_asyncio") is None:
        return pytest.fixture(function)
    return import_module("pytest_asyncio").fixture(loop_scope="function")(function)


@awaited
async def sim(request: pytest.FixtureRequest, cluster_seed: int) -> AsyncIterator[SimulatedCluster]:
    """A simulated cluster that is up, in virtual time; `sim.simulator` is its world."""
    _check_awaits(request, "sim")
    wish = _wish(request.node)
    timeout_ms = wish.timeout_ms(SIMULATED_TIMEOUT_MS)
    async with Simulator(cluster_seed, session_timeout_ms=timeout_ms) as simulator:
        made = SimulatedCluster(
            simulator, brokers=wish.brokers, overrides=wish.config, racks=wish.racks
        )
        run = _told(request.node, made, seed=cluster_seed)
        try:
            await made.start_nodes()
            await made.until((controller() != -1) & (brokers_up() == set(made.brokers)))
            yield made
        finally:
            run.close()
            run.write()


@awaited
async def cluster(
    request: pytest.FixtureRequest, _cluster_zookeeper: SharedZooKeeper
) -> AsyncIterator[Cluster]:
    """Real brokers on a real ZooKeeper, in this process, up."""
    _check_awaits(request, "cluster")
    made = Cluster(**_real(request.node, _cluster_zookeeper))
    run = _told(request.node, made)
    async with made:
        yield made
        run.close()


@pytest.fixture
def blocking_cluster(
    request: pytest.FixtureRequest, _cluster_zookeeper: SharedZooKeeper
) -> Iterator[BlockingCluster]:
    """Real brokers for tests that do not await."""
    made = BlockingCluster(**_real(request.node, _cluster_zookeeper))
    run = _told(request.node, made.cluster)
    with made:
        yield made
        run.close()


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Faults | BlockingFaults:
    """The hand on the cluster that the test has, whichever it is."""
    names = [each for each in CLUSTERS if takes(request.node, each)]
    if len(names) != 1:
        has = " and ".join(f"`{each}`" for each in names) or "none of them"
        _refuse(
            f"`faults` is the hand on a test's `sim`, `cluster` or `blocking_cluster`: it has {has}"
        )
    found: NodeCluster | BlockingCluster = request.getfixturevalue(names[0])
    return found.faults if isinstance(found, BlockingCluster) else NodeHand(found)


def _real(item: pytest.Item, zookeeper: SharedZooKeeper) -> dict[str, Any]:
    """What a real cluster is made with."""
    wish = _wish(item)
    return {
        "brokers": wish.brokers,
        "zookeeper": zookeeper.root(),
        "trace": _trace_of(item),
        "session_timeout_ms": wish.timeout_ms(SESSION_TIMEOUT_MS),
        "overrides": wish.config,
        "racks": wish.racks,
    }


def _wish(item: pytest.Item) -> Wish:
    try:
        return wish_of((mark.args, mark.kwargs) for mark in item.iter_markers("cluster"))
    except ValueError as error:
        _refuse(f"@pytest.mark.cluster: {error}")


def _check_awaits(request: pytest.FixtureRequest, name: str) -> None:
    """A cluster lives in one loop, and a test that runs in another, or in none, cannot use it."""
    is_given = hasattr(request.function, "hypothesis")  # whose function wraps the coroutine
    if not inspect.iscoroutinefunction(request.function) and not is_given:
        _refuse(
            f"`{name}` is for tests that are `async def`; for others there is `blocking_cluster`"
        )
    mark = request.node.get_closest_marker("asyncio")
    named = {} if mark is None else mark.kwargs
    scope = named.get("loop_scope") or request.config.getini("asyncio_default_test_loop_scope")
    if scope != "function":
        _refuse(
            f"`{name}` wants a loop for each test, and this one's is of the {scope}: "
            'add @pytest.mark.asyncio(loop_scope="function")'
        )
    if name == "sim" and not is_simulated():
        _refuse(
            "`sim` runs in virtual time, and another loop was chosen: it needs a pytest-asyncio "
            "that asks pytest_asyncio_loop_factories, and nobody who answers that for this test"
        )


def _refuse(sentence: str) -> NoReturn:
    pytest.fail(sentence, pytrace=False)


# --- when a test has failed -----------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell how to see it again, and what has happened."""
    report = yield
    run = item.stash.get(RUN, None)
    if run is not None and report.failed:
        report.sections.append((SECTION, run.report()))
    return report


def _told(item: pytest.Item, made: NodeCluster, *, seed: int | None = None) -> Run:
    run = Run(made, command=_command(item, seed), seed=seed, trace=_trace_of(item))
    item.stash[RUN] = run
    return run


def _command(item: pytest.Item, seed: int | None) -> str:
    """What to type, where pytest was started, to see this test again."""
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    _, _, within = item.nodeid.partition("::")
    words = ["pytest", f"{file}::{within}"]
    if seed is not None:
        words += ["--cluster-seed", str(seed)]
    return shlex.join(words)


def _trace_of(item: pytest.Item) -> Path | None:
    folder = item.config.stash[TRACES]
    return None if folder is None else folder / folder_name(item.nodeid)
