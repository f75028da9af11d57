"""A deployment folder: what `init` writes works as it is, and `check` names what is broken."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flwr.common.config import parse_config_args

from flower_support import processes
from flower_support.network import PATHS, PATIENCE, answers, eventually
from safle.errors import SettingsError
from safle_flower.checking import check_folder
from safle_flower.deployment import Deployment, make_folder

SAFLE = Path(sys.executable).with_name("safle")
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def template(federation, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("deployment") / "made"
    make_folder(folder, Deployment(NAMES, "127.0.0.1", 18443))
    shutil.copy(federation.encoder_path, folder / "server")
    return folder


@pytest.fixture
def folder(template, tmp_path) -> Path:
    return shutil.copytree(template, tmp_path / "federation")


def errors(folder: Path) -> list[str]:
    return [str(finding) for finding in check_folder(folder) if finding.serious]


def test_a_new_folder_is_right_as_a_whole_and_in_its_parts(folder):
    assert check_folder(folder / "server") == []
    # Nobody has run users.sh: that is the one thing there is to say.
    for place, nodes in ((folder, 3), (folder / "nodes" / "b", 1)):
        found = check_folder(place)
        assert [finding.serious for finding in found] == [False] * nodes
        assert all("have one user" in str(finding) for finding in found)


def test_secrets_are_for_their_owner_alone_and_each_node_has_its_own(folder):
    secrets = [*folder.rglob("*.key")]
    assert len({path.read_bytes() for path in secrets}) == len(secrets) == 2 + len(NAMES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    for name in NAMES:
        held = [path.name for path in (folder / "nodes" / name).rglob("*.key")]
        assert held == ["node.key"]


def swap(first: Path, second: Path) -> None:
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)


def expire(folder: Path) -> None:
    """The script that makes certificates, with another date, makes one that was valid once."""
    script, dates = folder / "certificates.sh", '-days "$days"'
    assert dates in script.read_text()
    past = re.sub(r"-startdate \d+Z", "-startdate 20200101000000Z", script.read_text())
    script.write_text(past.replace(dates, "-enddate 20200102000000Z"))
    (folder / "server" / "server.crt").unlink()
    subprocess.run([script], check=True, capture_output=True)


def replace_authority(path: Path) -> None:
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"]
    new += ["-nodes", "-keyout", "/dev/null", "-subj", "/CN=other", "-out", path]
    subprocess.run(new, check=True, capture_output=True)


BREAKAGES = {
    "others may read": lambda f: (f / "nodes/a/node/node.key").chmod(0o644),
    "server.key: others may read": lambda f: (f / "server/server.key").chmod(0o640),
    "server.crt: missing": lambda f: (f / "server/server.crt").unlink(),
    "node.key: missing": lambda f: (f / "nodes/c/node/node.key").unlink(),
    "encoder.safetensors: missing": lambda f: (f / "server/encoder.safetensors").unlink(),
    "not a safle encoder|safetensors": lambda f: (f / "server/encoder.safetensors").write_bytes(
        b"no"
    ),
    "not the key of server.crt": lambda f: swap(f / "server/server.key", f / "ca/ca.key"),
    "not signed by the authority": lambda f: replace_authority(f / "server/ca.crt"),
    "not the public half": lambda f: swap(f / "nodes/a/node/node.key", f / "nodes/b/node/node.key"),
    "is not the key in": lambda f: swap(f / "server/keys/a.pub", f / "server/keys/b.pub"),
    "keys/b.pub is missing": lambda f: (f / "server/keys/b.pub").unlink(),
    "not a public EC key": lambda f: (f / "server/keys/b.pub").write_text("hello"),
    "the certificate is not for it": lambda f: (f / "nodes/a/node/start.sh").write_text(
        (f / "nodes/a/node/start.sh").read_text().replace("127.0.0.1:18443", "elsewhere.org:18443")
    ),
    "where the server is": lambda f: (f / "nodes/a/node/start.sh").write_text("#!/bin/sh\n"),
    "no client is expected": lambda f: (f / "server/app/pyproject.toml").write_text(
        (f / "server/app/pyproject.toml").read_text().replace('expected = "a,b,c"', 'expected = ""')
    ),
    "unknown setting": lambda f: (f / "server/app/pyproject.toml").write_text(
        (f / "server/app/pyproject.toml").read_text() + 'nosuch = "x"\n'
    ),
    "not the authority of the server": lambda f: replace_authority(f / "nodes/b/node/ca.crt"),
    "server.crt: expired on": expire,
}


@pytest.mark.parametrize("said", BREAKAGES)
def test_every_breakage_is_named(folder, said):
    BREAKAGES[said](folder)
    found = errors(folder)
    assert any(part in error for part in said.split("|") for error in found), found


def test_deploy_check_refuses_another_folder(tmp_path):
    assert "neither a server's nor a node's" in errors(tmp_path)[0]


HARMFUL = {
    "nodes": [(), ("a", "a"), ("../a",), ("a b",), ('a"; rm',), ("a\n",)],
    "keyholders": [("a",)],
    "host": [
        *("h; rm -rf", "", "host:9", "host:", "[host]", "[127.0.0.1]", "[::1", "[::1]:9", "1.2.3"),
        *("-x.org", "a..b", "h\n"),
    ],
    "listen": ["$(touch /tmp/owned)", "`id`", '0.0.0.0" --insecure "', "0.0.0.0:80"],
    "prefix": [
        *("/opt/safle\nExecStartPre=/bin/sh", "/opt/safle;", "opt", "/opt/../etc", "/opt/%i", "/"),
    ],
    "port": [0, 65535],
}


@pytest.mark.parametrize(
    "wrong", [{name: value} for name, values in HARMFUL.items() for value in values]
)
def test_values_that_could_do_harm_are_refused(tmp_path, wrong):
    right = {"nodes": ("a",), "host": "h", "port": 8443}
    with pytest.raises(SettingsError):
        make_folder(tmp_path / "new", Deployment(**right | wrong))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("host", ["::1", "[::1]", "[2001:DB8::1]"])
def test_an_address_of_version_six_is_the_same_everywhere(tmp_path, host):
    make_folder(tmp_path / "six", Deployment(("a",), host, 8443, listen="::"))
    bare = host.strip("[]").lower()
    assert f"--superlink '[{bare}]:8443'" in (tmp_path / "six/nodes/a/node/start.sh").read_text()
    # That the certificate is for this host is among what is checked.
    assert [error for error in errors(tmp_path / "six") if "encoder" not in error] == []


def test_a_folder_with_a_quote_in_its_environment_is_safe(tmp_path, monkeypatch):
    """What `init` does not choose itself, the path of this Python, cannot run anything."""
    marker = tmp_path / "owned"
    monkeypatch.setattr(sys, "prefix", f"/x'\"$(touch {marker})`touch {marker}`")
    make_folder(tmp_path / "new", Deployment(("a",), "h", 8443))
    place = tmp_path / "new" / "server"
    done = script(place / "status.sh", SAFLE_VENV="")
    assert not marker.exists(), done.stderr


def test_shellcheck_finds_nothing_in_the_scripts(folder):
    shellcheck = Path(sys.executable).with_name("shellcheck")
    program = str(shellcheck) if shellcheck.exists() else shutil.which("shellcheck")
    if program is None:
        pytest.skip("needs shellcheck")
    scripts = sorted(folder.rglob("*.sh"))
    assert len(scripts) == 7 + 6 * len(NAMES)
    for path in scripts:
        # environment.sh sets what the scripts beside it use, and data.sh their arguments.
        command = [program, "-x", "-e", "SC2034", "-P", path.parent, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_certificates_pass_strict_verification(folder):
    """A real connection, verified as strictly as Python 3.13 does by itself."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server/server.crt", folder / "server/server.key")
    client = ssl.create_default_context(cafile=str(folder / "nodes/a/node/ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN

    def accept(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        with (
            contextlib.suppress(OSError),
            server.wrap_socket(accepted, server_side=True) as secured,
        ):
            secured.recv(1)

    def handshake(host: str) -> str | None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=accept, args=(listening,), daemon=True).start()
            with (
                socket.create_connection(listening.getsockname()) as plain,
                client.wrap_socket(plain, server_hostname=host) as secured,
            ):
                return secured.version()

    assert handshake("127.0.0.1") == handshake("localhost") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake("elsewhere.org")


def test_an_existing_folder_is_left_alone(folder):
    before = (folder / "ca" / "ca.key").read_bytes()
    with pytest.raises(SettingsError, match="exists and is not empty"):
        make_folder(folder, Deployment(NAMES, "h", 8443))
    assert (folder / "ca" / "ca.key").read_bytes() == before


def script(path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One of the folder's scripts, as an operator runs it from anywhere."""
    return subprocess.run(
        [path, *arguments],
        env=os.environ | {"SAFLE_VENV": sys.prefix} | variables,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )


@pytest.fixture
def recorder(tmp_path) -> dict[str, str]:
    """An environment whose programs print their arguments and the variables of safle."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("flower-supernode", "safle"):
        (programs / name).write_text(
            f'#!/bin/sh\nprintf "%s\\n" {name} "$@" "${{SAFLE_POLICY:-}}" "${{SAFLE_LOG:-}}"\n'
        )
        (programs / name).chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SAFLE_")}
    return clean | {"SAFLE_VENV": str(tmp_path / "venv")}


def said_by(*command: str | Path, env: dict[str, str], cwd: Path) -> list[str]:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_node_is_given_no_path_but_its_inbox_and_outbox(folder, tmp_path, recorder):
    ports = []
    for name in NAMES:
        place = folder / "nodes" / name
        said = said_by(place / "node" / "start.sh", env=recorder, cwd=tmp_path)
        ports.append(said[said.index("--port") + 1])
        config = parse_config_args([said[said.index("--node-config") + 1]])
        folders = {part: str(place / part) for part in ("inbox", "outbox")}
        assert config == {"client": name, **folders}
        # Nor do its variables name the policy or the log.
        assert said[-2:] == ["", ""]
    assert len(set(ports)) == len(NAMES)


def test_keyholders_have_nodes_that_no_round_waits_for(federation, tmp_path, recorder):
    folder = tmp_path / "private"
    make_folder(folder, Deployment(("a", "b"), "127.0.0.1", 18443, keyholders=("board",)))
    shutil.copy(federation.encoder_path, folder / "server")
    assert errors(folder) == []
    assert {path.stem for path in (folder / "server" / "keys").iterdir()} == {"a", "b", "board"}
    assert 'expected = "a,b"' in (folder / "server" / "app" / "pyproject.toml").read_text()
    roles = {}
    for place in (folder / "nodes").iterdir():
        said = said_by(place / "node" / "start.sh", env=recorder, cwd=tmp_path)
        config = parse_config_args([said[said.index("--node-config") + 1]])
        roles[place.name] = config.get("role", "client")
    assert roles == {"a": "client", "b": "client", "board": "keyholder"}


def test_a_watcher_has_the_sites_policy_and_log_and_the_options_of_the_command(
    folder, tmp_path, recorder
):
    place = folder / "nodes" / "a"
    (tmp_path / "visits.csv").touch()
    words = ["visits.csv", "--label-column", "the diagnosis", "--ignore", "ward"]
    said = said_by(place / "site" / "watch.sh", *words, env=recorder, cwd=tmp_path)
    folders = [f"{place}/site/../{part}" for part in ("inbox", "outbox")]
    owned = [str(place / "site" / name) for name in ("policy.toml", "log.jsonl")]
    assert said == ["safle", "airlock", *folders, "--watch", *words, *owned]
    # Without arguments, as systemd starts it, those of data.sh.
    with (place / "site" / "data.sh").open("a") as file:
        file.write("set -- /data/visits.csv --id 'the patient'\n")
    said = said_by(place / "site" / "watch.sh", env=recorder, cwd=tmp_path)
    assert said[4:-2] == ["--watch", "/data/visits.csv", "--id", "the patient"]


def test_trust_operator_starts_both_with_one_command(folder, tmp_path, recorder):
    start = folder / "nodes" / "a" / "node" / "start.sh"
    said = said_by(start, "--trust-operator", "visits.csv", env=recorder, cwd=tmp_path)
    assert {"safle", "airlock", "visits.csv", "flower-supernode"} <= {*said}


@pytest.mark.slow
def test_the_scripts_run_a_federation_with_tls_and_known_nodes(federation, tmp_path):
    folder, port = tmp_path / "federation", processes.free_port()
    command = [SAFLE, "deploy", "init", folder, "--host", "127.0.0.1", "--listen", "127.0.0.1"]
    command += ["--nodes", ",".join(NAMES), "--port", str(port), "--deadline", str(PATIENCE)]
    command += ["--plain"]
    subprocess.run(command, check=True, capture_output=True)
    for name in NAMES:
        # The tables are small, and lie in cells of few samples.
        policy = folder / "nodes" / name / "site" / "policy.toml"
        text = policy.read_text()
        assert "\nleast_cell = 10\n" in text
        policy.write_text(text.replace("least_cell = 10", "least_cell = 0"))
    server = folder / "server"
    shutil.copy(federation.encoder_path, server / "encoder.safetensors")
    # Node c calls itself a: its registered name counts, not what it says.
    start = folder / "nodes" / "c" / "node" / "start.sh"
    start.write_text(start.read_text().replace('client=\\"c\\"', 'client=\\"a\\"'))
    stranger = shutil.copytree(folder / "nodes" / "a", tmp_path / "stranger")
    (stranger / "node" / "node.key").unlink()
    new_key = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", ""]
    subprocess.run([*new_key, "-f", stranger / "node" / "node.key"], check=True)

    env = PATHS | {"SAFLE_VENV": sys.prefix, "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:

        def start_in_background(
            program: Path, *words: object, **variables: str
        ) -> subprocess.Popen[bytes]:
            log = tmp_path / f"{program.parents[1].name}-{program.parent.name}.log"
            return stack.enter_context(
                processes.running([program, *map(str, words)], env=env | variables, log=log)
            )

        start_in_background(server / "start.sh")
        eventually(lambda: answers(port), explain=lambda: [*tmp_path.glob("*.log")])
        registered = script(server / "register.sh")
        assert registered.returncode == 0, registered.stdout + registered.stderr
        for name in NAMES:
            ports = {"SAFLE_NODE_PORT": str(processes.free_port())}
            start_in_background(folder / "nodes" / name / "node" / "start.sh", **ports)
            watch = folder / "nodes" / name / "site" / "watch.sh"
            start_in_background(watch, federation.table(name))
        ports = {"SAFLE_NODE_PORT": str(processes.free_port())}
        unknown = start_in_background(stranger / "node" / "start.sh", **ports)
        done = script(server / "run.sh")
        assert done.returncode == 0, done.stdout + done.stderr
        assert unknown.wait(PATIENCE) != 0
        check = subprocess.run(
            [SAFLE, "deploy", "check", folder, "--connect"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert check.returncode == 0, check.stdout
        assert "the control API answers from here without a login" in check.stdout
        said = [""]

        def are_online() -> bool:
            status = script(server / "status.sh")
            assert status.returncode == 0, status.stderr
            said.append(status.stdout)
            return status.stdout.count("online") >= 3 and "finished" in status.stdout

        # A node of a busy machine that is late with its heartbeat is offline until the next one.
        eventually(are_online, explain=lambda: said[-1])
    report = json.loads((server / "results" / "report.json").read_text())
    assert sorted(report["accepted"]) == ["a", "b", "c"]
    assert {row["client"] for row in report["clients"]} == {"a", "b", "c"}
    assert len(report["clients"]) == 3
    model = (server / "results" / "model.safetensors").read_bytes()
    assert model == federation.by_files(NAMES, tmp_path)
    assert model == federation.pooled(NAMES)
    assert "3 accepted" in done.stdout
    gone = check_folder(folder, connect=True)
    assert any("cannot be reached" in str(finding) for finding in gone)
