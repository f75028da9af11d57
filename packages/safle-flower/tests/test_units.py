"""The systemd units of a deployment, as systemd itself reads them."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from safle_flower.deployment import Deployment, make_folder

USERS = {"safle": "safle", "safle-node": "safle-node", "safle-site": "safle-data"}
STARTED = {"safle": "start.sh", "safle-node": "node/start.sh", "safle-site": "site/watch.sh"}
HIDDEN = "InaccessiblePaths"
EXPECTED = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {
        *("User", "ExecStart", "Restart", "RestartSec"),
        *("NoNewPrivileges", "PrivateTmp", "ProtectSystem"),
    },
    "Install": {"WantedBy"},
}


@pytest.fixture
def units(tmp_path) -> list[Path]:
    """Of a folder that is where its units say it is."""
    place = tmp_path / "federation"
    make_folder(place, Deployment(("a", "b"), "127.0.0.1", 18443, prefix=str(place)))
    return sorted(place.rglob("*.service"))


def test_units_hold_known_keys_once_and_start_a_program_that_is_there(units):
    assert len(units) == 5
    for path in units:
        unit = configparser.RawConfigParser(delimiters="=", strict=True, interpolation=None)
        unit.optionxform = str
        unit.read_string(path.read_text())
        node = path.name.startswith("safle-node")
        # The node's process does not even see where the data's policy and log are.
        assert unit["Service"].pop(HIDDEN, "") == (f"-{path.parent / 'site'}" if node else "")
        assert {name: {*unit[name]} for name in unit.sections()} == EXPECTED
        assert unit["Service"]["User"] == USERS[path.name.rsplit("-", 1)[0]]
        started = unit["Service"]["ExecStart"]
        # No word of it may be split, expanded or replaced by systemd.
        assert not set(started) & set(" \t\"'\\%$;")
        assert Path(started) == path.parent / STARTED[path.name.rsplit("-", 1)[0]]
        assert Path(started).stat().st_mode & 0o111


def verify(path: Path) -> str:
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # About others on this machine there may be much to say.
    return "\n".join(line for line in done.stderr.splitlines() if path.name in line)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_finds_nothing_to_say_about_the_units(units):
    for path in units:
        assert verify(path) == ""
    # It would have: a key that it does not know, and a program that is not there.
    broken = units[0].with_name("broken.service")
    text = units[0].read_text()
    broken.write_text(text.replace("Restart=", "Retsart="))
    assert "Retsart" in verify(broken)
    broken.write_text(text.replace("/start.sh", "/nothing.sh"))
    assert "nothing.sh" in verify(broken)


def test_trust_operator_has_one_unit(tmp_path):
    place = tmp_path / "federation"
    make_folder(place, Deployment(("a",), "h", 18443, prefix=str(place), trust_operator=True))
    node = place / "nodes/a"
    assert [path.name for path in node.glob("*.service")] == ["safle-node-a.service"]
    text = (node / "safle-node-a.service").read_text()
    assert f"ExecStart={node}/node/start.sh --trust-operator\n" in text
    assert HIDDEN not in text
    assert "trust the operator" in (place / "README.md").read_text()
