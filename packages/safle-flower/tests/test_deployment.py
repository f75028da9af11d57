"""A deployment folder: what `init` writes works as it is, and `check` names what is broken."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.common.config import parse_config_args

from safle.errors import SettingsError
from safle_flower import processes
from safle_flower.deployment import certificates as certs
from safle_flower.deployment.checking import check_folder
from safle_flower.deployment.folder import Deployment, make_folder
from support.network import PATIENCE, answers, eventually

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
    assert check_folder(folder) == []
    assert check_folder(folder / "server") == []
    assert check_folder(folder / "nodes" / "b") == []


def test_secrets_are_for_their_owner_alone(folder):
    secrets = [*folder.rglob("*.key")]
    assert len(secrets) == 2 + len(NAMES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def test_a_node_gets_its_own_key_and_no_other_secret(folder):
    keys = {path.read_bytes() for path in folder.rglob("node.key")}
    assert len(keys) == len(NAMES)
    for name in NAMES:
        secrets = [path.name for path in (folder / "nodes" / name).rglob("*.key")]
        assert secrets == ["node.key"]


def test_openssl_and_ssh_keygen_accept_what_we_make(folder):
    server = folder / "server"
    done = subprocess.run(
        [
            *("openssl", "verify", "-purpose", "sslserver", "-verify_ip", "127.0.0.1"),
            *("-CAfile", server / "ca.crt", server / "server.crt"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    key = folder / "nodes" / "a" / "node.key"
    public = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, check=True).stdout
    assert public.split()[:2] == (server / "keys" / "a.pub").read_bytes().split()[:2]


def swap(first: Path, second: Path) -> None:
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)


def expire(folder: Path) -> None:
    key = certs.read_tls_key(folder / "server" / "server.key")
    authority = certs.read_certificate(folder / "ca" / "ca.crt")
    authority_key = certs.read_tls_key(folder / "ca" / "ca.key")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certs, "SERVER_DAYS", 0)
        hosts = ["127.0.0.1", "localhost"]
        made = certs.make_server_certificate(hosts, key, authority, authority_key)
    (folder / "server" / "server.crt").write_bytes(certs.certificate_bytes(made))


BREAKAGES = {
    "others may read": lambda f: (f / "nodes/a/node.key").chmod(0o644),
    "server.key: others may read": lambda f: (f / "server/server.key").chmod(0o640),
    "server.crt: missing": lambda f: (f / "server/server.crt").unlink(),
    "node.key: missing": lambda f: (f / "nodes/c/node.key").unlink(),
    "encoder.safetensors: missing": lambda f: (f / "server/encoder.safetensors").unlink(),
    "not a safle encoder|safetensors": lambda f: (f / "server/encoder.safetensors").write_bytes(
        b"no"
    ),
    "not the key of server.crt": lambda f: swap(f / "server/server.key", f / "ca/ca.key"),
    "not signed by the authority": lambda f: (f / "server/ca.crt").write_bytes(
        certs.certificate_bytes(certs.make_authority(certs.new_key()))
    ),
    "not the public half": lambda f: swap(f / "nodes/a/node.key", f / "nodes/b/node.key"),
    "is not the key in": lambda f: swap(f / "server/keys/a.pub", f / "server/keys/b.pub"),
    "keys/b.pub is missing": lambda f: (f / "server/keys/b.pub").unlink(),
    "not a public key": lambda f: (f / "server/keys/b.pub").write_text("hello"),
    "its certificate is for": lambda f: (f / "nodes/a/start.sh").write_text(
        (f / "nodes/a/start.sh").read_text().replace("127.0.0.1:18443", "elsewhere.org:18443")
    ),
    "where the server is": lambda f: (f / "nodes/a/start.sh").write_text("#!/bin/sh\n"),
    "nobody is waited for": lambda f: (f / "server/app/pyproject.toml").write_text(
        (f / "server/app/pyproject.toml").read_text().replace('expected = "a,b,c"', 'expected = ""')
    ),
    "unknown setting": lambda f: (f / "server/app/pyproject.toml").write_text(
        (f / "server/app/pyproject.toml").read_text() + 'nosuch = "x"\n'
    ),
    "not the authority of the server": lambda f: (f / "nodes/b/ca.crt").write_bytes(
        certs.certificate_bytes(certs.make_authority(certs.new_key()))
    ),
    "server.crt: has expired on": expire,
}


@pytest.mark.parametrize("said", BREAKAGES)
def test_every_breakage_is_named(folder, said):
    BREAKAGES[said](folder)
    found = errors(folder)
    assert any(part in error for part in said.split("|") for error in found), found


def test_a_folder_of_something_else_is_no_deployment(tmp_path):
    assert "neither a server's nor a node's" in errors(tmp_path)[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": ()},
        {"nodes": ("a", "a")},
        {"nodes": ("../a",)},
        {"nodes": ("a b",)},
        {"nodes": ('a"; rm',)},
        {"nodes": ("a\n",)},
        {"host": "h; rm -rf"},
        {"host": ""},
        {"host": "host:9"},
        {"host": "host:"},
        {"host": "[host]"},
        {"host": "[127.0.0.1]"},
        {"host": "[::1"},
        {"host": "[::1]:9"},
        {"host": "1.2.3"},
        {"host": "-x.org"},
        {"host": "a..b"},
        {"host": "h\n"},
        {"listen": "$(touch /tmp/owned)"},
        {"listen": "`id`"},
        {"listen": '0.0.0.0" --insecure "'},
        {"listen": "0.0.0.0:80"},
        {"prefix": "/opt/safle\nExecStartPre=/bin/sh"},
        {"prefix": "/opt/safle;"},
        {"prefix": "opt"},
        {"prefix": "/opt/../etc"},
        {"prefix": "/opt/%i"},
        {"prefix": "/"},
        {"port": 0},
        {"port": 65535},
    ],
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
    assert f"--superlink '[{bare}]:8443'" in (tmp_path / "six/nodes/a/start.sh").read_text()
    server = certs.read_certificate(tmp_path / "six" / "server" / "server.crt")
    assert bare in certs.hosts_of(server)
    assert [
        str(found) for found in check_folder(tmp_path / "six") if "encoder" not in str(found)
    ] == []


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
    assert len(scripts) == 6 + 2 * len(NAMES)
    for path in scripts:
        # environment.sh sets what the scripts beside it use.
        command = [program, "-x", "-e", "SC2034", "-P", path.parent, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


# With nothing but the standard library, so that any Python can run it: a real connection with
# strict verification, which is what Python 3.13 does by itself.
HANDSHAKE = """
import contextlib, socket, ssl, sys, threading
from pathlib import Path
folder, host = Path(sys.argv[1]), sys.argv[2]
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(folder / "server/server.crt", folder / "server/server.key")
client = ssl.create_default_context(cafile=str(folder / "nodes/a/ca.crt"))
if sys.version_info < (3, 13):
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
assert client.verify_flags & ssl.VERIFY_X509_STRICT

def serve():
    accepted, _ = listening.accept()
    with contextlib.suppress(OSError), server.wrap_socket(accepted, server_side=True) as secured:
        secured.recv(1)

with socket.create_server(("127.0.0.1", 0)) as listening:
    threading.Thread(target=serve, daemon=True).start()
    with (
        socket.create_connection(listening.getsockname()) as plain,
        client.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.send(b"x")
        print(secured.version())
"""


def find_python(version: str) -> Path:
    """A Python of that version, if this machine has one that starts."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*")]
    for place in filter(None, found):
        program = Path(place) / "bin" / "python" if Path(place).is_dir() else Path(place)
        command = [program, "-c", "import ssl, sys; print(sys.version)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.startswith(version):
            return program
    pytest.skip(f"needs Python {version}")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_certificates_pass_strict_verification(folder, version):
    python = find_python(version)

    def handshake(host: str) -> str:
        command = [python, "-c", HANDSHAKE, folder, host]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert handshake("127.0.0.1") == "TLSv1.3\n"
    assert handshake("localhost") == "TLSv1.3\n"
    assert "CERTIFICATE_VERIFY_FAILED" in handshake("elsewhere.org")


def test_an_existing_folder_is_left_alone(folder):
    before = (folder / "ca" / "ca.key").read_bytes()
    with pytest.raises(SettingsError, match="already"):
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


def test_a_node_takes_the_options_of_count(folder, tmp_path):
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "flower-supernode").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (programs / "flower-supernode").chmod(0o755)
    (tmp_path / "visits.csv").touch()
    options = [
        "--label-column",
        "the diagnosis",
        "--ignore",
        "ward",
        "--ignore",
        "bed",
        "--id",
        "no",
    ]
    ports = []
    for name in NAMES:
        done = subprocess.run(
            [folder / "nodes" / name / "start.sh", "visits.csv", *options, "--trust-features"],
            cwd=tmp_path,
            env=os.environ | {"SAFLE_VENV": str(tmp_path / "venv")},
            capture_output=True,
            text=True,
            check=True,
        )
        said = done.stdout.splitlines()
        ports.append(said[said.index("--port") + 1])
        config = parse_config_args([said[said.index("--node-config") + 1]])
        assert config.pop("policy") == str(folder / "nodes" / name / "policy.toml")
        assert config == {
            "client": name,
            "features": str(tmp_path / "visits.csv"),
            "label-column": "the diagnosis",
            "ignore": "ward,bed",
            "id": "no",
            "trust-features": True,
        }
    assert len(set(ports)) == len(NAMES)
    refused = script(folder / "nodes" / "a" / "start.sh", "--nosuch", "x")
    assert (refused.returncode, "unknown option --nosuch" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_the_scripts_run_a_federation_with_tls_and_known_nodes(federation, tmp_path):
    folder, port = tmp_path / "federation", processes.free_port()
    command = [SAFLE, "deploy", "init", folder, "--host", "127.0.0.1", "--listen", "127.0.0.1"]
    command += ["--nodes", ",".join(NAMES), "--port", str(port), "--deadline", str(PATIENCE)]
    command += ["--plain"]
    subprocess.run(command, check=True, capture_output=True)
    server = folder / "server"
    shutil.copy(federation.encoder_path, server / "encoder.safetensors")
    # Node c calls itself a: its registered name counts, not what it says.
    start = folder / "nodes" / "c" / "start.sh"
    start.write_text(start.read_text().replace('client=\\"c\\"', 'client=\\"a\\"'))
    stranger = shutil.copytree(folder / "nodes" / "a", tmp_path / "stranger")
    (stranger / "node.key").write_bytes(certs.node_key_bytes(certs.new_key()))

    env = os.environ | {"SAFLE_VENV": sys.prefix, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:

        def start_in_background(place: Path, **variables: str) -> subprocess.Popen[bytes]:
            log = tmp_path / f"{place.name}.log"
            return stack.enter_context(
                processes.running([place / "start.sh"], env=env | variables, log=log)
            )

        def node_settings(name: str) -> dict[str, str]:
            return {"SAFLE_FEATURES": str(federation.table(name))}

        start_in_background(server)
        eventually(lambda: answers(port), explain=lambda: processes.tail(tmp_path / "server.log"))
        registered = script(server / "register.sh")
        assert registered.returncode == 0, registered.stdout + registered.stderr
        for name in NAMES:
            start_in_background(folder / "nodes" / name, **node_settings(name))
        own_port = {"SAFLE_NODE_PORT": str(processes.free_port())}
        unknown = start_in_background(stranger, **node_settings("d"), **own_port)
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
            found = re.findall(r"^([abc]) +online", status.stdout, re.MULTILINE)
            return sorted(found) == [*NAMES] and "finished" in status.stdout

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
    assert "cannot be reached" in str(gone[0])
