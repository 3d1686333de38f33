"""The rate at which throttled replicas are copied, by a clock moved by hand: B167."""

import pytest

from actors.broker.quota import NO_LIMIT, ReplicationQuota

pytestmark = pytest.mark.behaviour("B167")
SECOND_MS = 1_000


def test_without_a_limit_nothing_is_too_much():
    quota = ReplicationQuota()

    quota.record(2**50, now_ms=0)

    assert quota.rate == NO_LIMIT
    assert not quota.is_exceeded(now_ms=0)


def test_nothing_recorded_exceeds_nothing_even_if_nothing_is_allowed():
    quota = ReplicationQuota(rate=0)
    assert not quota.is_exceeded(now_ms=5)

    quota.record(1, now_ms=6)

    assert quota.is_exceeded(now_ms=6)


def test_the_rate_itself_is_allowed_and_a_byte_more_is_not():
    quota = ReplicationQuota(rate=100)

    quota.record(100, now_ms=0)
    assert not quota.is_exceeded(now_ms=0)

    quota.record(1, now_ms=0)
    assert quota.is_exceeded(now_ms=0)


def test_a_moment_counts_as_a_whole_second():
    quota = ReplicationQuota(rate=100)

    quota.record(60, now_ms=10)

    assert quota.bytes_per_second(now_ms=10) == 60
    assert quota.bytes_per_second(now_ms=510) == 60
    assert quota.bytes_per_second(now_ms=1_210) == 50


@pytest.mark.parametrize("steps_a_second", [1, 4, 10])
def test_a_steady_copier_is_measured_at_its_speed(steps_a_second):
    quota = ReplicationQuota()
    step_ms = SECOND_MS // steps_a_second

    for step in range(60 * steps_a_second):
        quota.record(1_000 // steps_a_second, now_ms=step * step_ms)

    assert quota.bytes_per_second(now_ms=60 * SECOND_MS) == pytest.approx(1_000, rel=0.1)


def test_idleness_lets_the_rate_decay_until_it_is_allowed_again():
    quota = ReplicationQuota(rate=100)
    quota.record(500, now_ms=0)

    exceeded = [second for second in range(20) if quota.is_exceeded(second * SECOND_MS)]

    assert exceeded == [0, 1, 2, 3, 4]  # after five seconds: 500 bytes, 100 a second


def test_what_is_eleven_seconds_old_is_forgotten():
    quota = ReplicationQuota(rate=10)
    quota.record(1_000, now_ms=0)

    assert quota.is_exceeded(now_ms=10_999)
    assert not quota.is_exceeded(now_ms=11_000)
    assert quota.bytes_per_second(now_ms=11_000) == 0


def test_each_second_is_forgotten_in_its_turn():
    quota = ReplicationQuota()
    quota.record(1_000, now_ms=0)
    quota.record(5_000, now_ms=5_000)

    assert quota.bytes_per_second(now_ms=10_000) == 600
    assert quota.bytes_per_second(now_ms=11_000) == pytest.approx(5_000 / 6)
    assert quota.bytes_per_second(now_ms=16_000) == 0


def test_the_eleven_last_samples_count_however_many_there_were():
    quota = ReplicationQuota()

    for second in range(100):
        quota.record(second, now_ms=second * SECOND_MS)

    # 89 to 99; the twelfth had its place taken by the newest.
    assert quota.bytes_per_second(now_ms=99_000) == sum(range(89, 100)) / 10


def test_a_burst_after_long_idleness_is_seen_at_once():
    quota = ReplicationQuota(rate=100)
    quota.record(10, now_ms=0)
    assert not quota.is_exceeded(now_ms=3_600_000)

    quota.record(101, now_ms=3_600_000)

    assert quota.is_exceeded(now_ms=3_600_000)


def test_a_rate_changed_in_flight_judges_what_was_recorded_before():
    quota = ReplicationQuota(rate=100)
    quota.record(500, now_ms=0)
    assert quota.is_exceeded(now_ms=0)

    quota.rate = 500
    assert not quota.is_exceeded(now_ms=0)

    quota.rate = 499
    assert quota.is_exceeded(now_ms=0)

    quota.rate = NO_LIMIT
    assert not quota.is_exceeded(now_ms=0)


def test_a_throttled_copier_keeps_to_the_rate_on_average():
    quota, copied, step_ms = ReplicationQuota(rate=1_000), 0, 10

    for now_ms in range(0, 60 * SECOND_MS, step_ms):
        if not quota.is_exceeded(now_ms):
            quota.record(300, now_ms)
            copied += 300

    assert copied == pytest.approx(60_000, rel=0.05)
