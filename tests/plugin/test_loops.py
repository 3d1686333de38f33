"""Which loop a test gets, and what is said when it cannot be the right one."""

import pytest

pytest_plugins = ["pytester"]

AUTO = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


def test_only_tests_with_our_sim_run_in_virtual_time(pytester):
    # given: a project with a loop of its own, a `sim` that extends ours, and one that is another
    pytester.makefile(".ini", pytest=AUTO)
    pytester.makeconftest(
        """
        import asyncio

        class TheirLoop(asyncio.SelectorEventLoop):
            pass

        def pytest_asyncio_loop_factories(config, item):
            return {"theirs": TheirLoop}
        """
    )
    pytester.makepyfile(
        test_ours="""
        import asyncio
        import pytest

        def loop():
            return type(asyncio.get_running_loop()).__name__

        async def test_it_has_virtual_time(sim):
            assert loop() == "SimulatedLoop"

        @pytest.mark.parametrize("cluster_seed", [3, 4])
        async def test_it_has_its_own_seed(sim, cluster_seed):
            assert sim.simulator.seed == cluster_seed

        async def test_real_brokers_live_in_their_loop(cluster):
            assert loop() == "TheirLoop"

        async def test_it_is_none_of_our_business():
            assert loop() == "TheirLoop"
        """,
        test_extended="""
        import asyncio
        import pytest

        @pytest.fixture
        async def sim(sim):
            await sim.admin().create_topic("orders", partitions=1, replication_factor=1)
            return sim

        async def test_it_has_virtual_time(sim, faults):
            assert type(asyncio.get_running_loop()).__name__ == "SimulatedLoop"
            await faults.kill(1)
        """,
        test_another="""
        import asyncio
        import pytest

        @pytest.fixture
        async def sim():
            return "another"

        async def test_it_is_left_alone(sim):
            assert sim == "another"
            assert type(asyncio.get_running_loop()).__name__ == "TheirLoop"
        """,
    )

    result = pytester.runpytest_subprocess("-v")

    # then: nobody's name shows which loop was chosen
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["test_ours.py::test_it_has_virtual_time PASSED*"])


def test_a_project_without_a_hook_keeps_its_loops(pytester):
    pytester.makefile(".ini", pytest=AUTO)
    pytester.makepyfile(
        """
        import asyncio

        async def test_ours(sim):
            pass

        async def test_theirs(request):
            assert type(asyncio.get_running_loop()) is asyncio.SelectorEventLoop
            assert request.node.name == "test_theirs"
        """
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_test_that_cannot_use_its_cluster_is_told_why(pytester):
    pytester.makefile(".ini", pytest=AUTO)
    pytester.makepyfile(
        """
        import pytest

        def test_awaits_nothing(cluster):
            pass

        @pytest.mark.asyncio(loop_scope="module")
        async def test_shares_its_loop(sim):
            pass

        async def test_has_nothing_to_break(faults):
            pass
        """
    )

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "`cluster` is for tests that are `async def`; for others there is `blocking_cluster`",
            "`sim` wants a loop for each test, and this one's is of the module: *",
            "`faults` is the hand on a test's `sim`, * it has none of them",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_trace_folder_that_cannot_be_is_refused_before_any_test(pytester, name):
    pytester.makefile(".ini", pytest=AUTO)
    (pytester.path / "file").write_text("")

    result = pytester.runpytest_subprocess("--cluster-trace-dir", name)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --cluster-trace-dir: *{name} cannot be written: *"])
