"""Long work: what is done, and how long it will take; a line now and then where no terminal is."""

from __future__ import annotations

import pytest

from safle.cli import session


def test_a_line_says_what_is_done_and_what_was_done_before_is_no_speed(
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


def test_quiet_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with session.Session(quiet=True).progress("counting") as advance:
        advance(1.0)
    assert "".join(capsys.readouterr()) == ""
