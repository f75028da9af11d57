"""The pace of long work: what is done, how fast, how long it will take."""

from __future__ import annotations

import pytest

from safle.cli import session
from safle.cli.session import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    return now


def test_nothing_is_claimed_before_it_is_known(clock: list[float]) -> None:
    assert str(Pace(6000, "images")) == "0 of 6,000 images"


def test_images_of_an_earlier_run_do_not_count_as_speed(clock: list[float]) -> None:
    work = Pace(6000, "images")
    work.update(3000)
    clock[0] = 10.0
    work.update(3500)
    assert str(work) == "3,500 of 6,000 images, 50 images/s, 0:50 left"


def test_the_pace_is_the_recent_one(clock: list[float]) -> None:
    work = Pace(1_000_000, "images")
    for second in range(200):
        clock[0] = float(second)
        work.update(1000 * second if second < 100 else 100_000 + 10 * (second - 100))
    assert work.rate == pytest.approx(10)
