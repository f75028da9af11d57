"""Long work: what is done, and how long it will take; a line now and then where no terminal is."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from safle.cli import session
from safle.errors import InvalidInput


def test_progress_line_ignores_earlier_work_in_its_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with session.Session().progress("features", 6000, "images") as advance:
        for second, done in enumerate([3000, *range(3050, 4000, 50)]):
            now[0] = float(second)
            advance(done)
    said = capsys.readouterr().err.splitlines()
    assert said == ["features: 3,550 of 6,000 images, 0:00:49 left"]


def test_the_time_left_rests_on_all_that_is_done_and_does_not_jump(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps of a minute; one takes ten times as long, the next a tenth."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with session.Session().progress("counting", 40, "tables") as advance:
        for done, seconds in enumerate([0, *[60] * 19, 600, 6, *[60] * 8]):
            now[0] += seconds
            advance(done)
    left = re.findall(r"(\d+):(\d+):(\d+) left", capsys.readouterr().err)
    minutes = [60 * int(hours) + int(found) for hours, found, _ in left]
    assert len(minutes) >= 27
    steps = [abs(after - before) for before, after in pairwise(minutes)]
    assert max(steps) <= 10


@pytest.mark.parametrize(
    ("done", "said"),
    [
        pytest.param(1.0, "", id="nothing is left when all is done"),
        pytest.param(0.0, "counting: 0%\n", id="no speed, no estimate"),
    ],
)
def test_how_long_it_takes_is_said_only_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], done: float, said: str
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with session.Session().progress("counting") as advance:
        advance(0.0)
        now[0] = 59.0
        advance(done)
    assert capsys.readouterr().err == said


def test_quiet_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with session.Session(quiet=True).progress("counting") as advance:
        advance(1.0)
    assert "".join(capsys.readouterr()) == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file", "a.stats"), "a.stats: No such file"),
        (InvalidInput("too few"), "too few"),
        (ImportError("run 'python -m safle._native.build'"), "safle is not installed as it should"),
        (KeyError("x"), "unexpected KeyError: 'x'; please report it"),
    ],
)
def test_an_error_is_explained_in_one_line_and_only_what_is_unexpected_is_to_be_reported(
    error: Exception, said: str
) -> None:
    assert session.explain(error).startswith(said)
    assert ("report" in session.explain(error)) == isinstance(error, KeyError)
