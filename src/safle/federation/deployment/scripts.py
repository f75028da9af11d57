"""The texts of a deployment folder: scripts, service units, a proxy's configuration, a guide."""

from __future__ import annotations

ENVIRONMENT = """\
# Read by the other scripts. SAFLE_VENV: where safle and Flower are installed on this machine.
export PATH="${{SAFLE_VENV:-{venv}}}/bin:$PATH"
# Flower's own files, next to these scripts; nothing is sent to or fetched from anywhere else.
export FLWR_HOME="$PWD/flwr"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
"""

SERVER_ENVIRONMENT = (
    ENVIRONMENT
    + """\
SAFLE_PORT="${{SAFLE_PORT:-{port}}}"
# Where the operator's commands find the server: Flower wants the certificate's full path.
mkdir -p "$FLWR_HOME"
cat > "$FLWR_HOME/config.toml" <<END
[superlink]
default = "safle"

[superlink.safle]
address = "localhost:$SAFLE_PORT"
root-certificates = "$PWD/ca.crt"
END
"""
)

_HEAD = """\
#!/bin/sh
# {purpose}
set -eu
cd "$(dirname "$0")"
. ./environment.sh
"""

SERVER_START = (
    _HEAD.replace("{purpose}", "The server: encrypted, and only for registered nodes.")
    + """\
exec flower-superlink \\
    --host "${{SAFLE_LISTEN:-{listen}}}" --port "$SAFLE_PORT" \\
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \\
    --enable-supernode-auth \\
    --database superlink.db \\
    --disable-runtime-dependency-installation
"""
)

REGISTER = (
    _HEAD.replace(
        "{purpose}",
        "Register every key in keys/, under its file's name. Once; again for a new one.",
    )
    + """\
for key in keys/*.pub; do
    name="$(basename "$key" .pub)"
    if grep -qxF "$name" registered.txt 2>/dev/null; then
        echo "$name: registered before"
        continue
    fi
    flwr supernode register "$key" safle --name "$name"
    echo "$name" >> registered.txt
done
"""
)

RUN = (
    _HEAD.replace("{purpose}", "One round. Settings may be added: ./run.sh -c 'deadline=600.0'")
    + """\
encoder="$PWD/encoder.safetensors"
test -f "$encoder" || {{ echo "put the federation's encoder here: $encoder" >&2; exit 1; }}
rm -f results/report.json
flwr run app safle --stream \\
    -c "store=\\"$PWD/store\\" output=\\"$PWD/results\\" encoder=\\"$encoder\\"" "$@"
# Flower's own exit code does not say whether the round went well: the report does.
exec safle deploy report results
"""
)

STATUS = (
    _HEAD.replace("{purpose}", "Who is registered and online, and which runs there were.")
    + """\
flwr supernode list safle
flwr list safle
"""
)

LOGS = (
    _HEAD.replace("{purpose}", "The log of a run: ./logs.sh RUN, with a number from ./status.sh")
    + 'exec flwr log "$@" safle\n'
)

NODE_START = (
    _HEAD.replace("{purpose}", "The node of client {name}. SAFLE_FEATURES: its table.")
    + """\
features="${{SAFLE_FEATURES:-$PWD/data.npz}}"
test -f "$features" || {{ echo "no table at $features: set SAFLE_FEATURES" >&2; exit 1; }}
exec flower-supernode \\
    --superlink {host}:{port} --root-certificates ca.crt \\
    --auth-supernode-private-key node.key \\
    --host 127.0.0.1 --port "${{SAFLE_NODE_PORT:-9094}}" \\
    --node-config "client=\\"{name}\\" features=\\"$features\\" ${{SAFLE_NODE_CONFIG:-}}"
"""
)

UNIT = """\
[Unit]
Description={description}
After=network-online.target
Wants=network-online.target

[Service]
User=safle
ExecStart={folder}/start.sh
Restart=on-failure
RestartSec=10
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=full

[Install]
WantedBy=multi-user.target
"""

NGINX = """\
# Only what nodes need goes through; the control API stays on the server itself. With this in
# front, set SAFLE_LISTEN=127.0.0.1 and SAFLE_PORT={inner} for the scripts of this folder.
server {{
    listen {port} ssl;
    server_name {host};
    ssl_certificate {folder}/server.crt;
    ssl_certificate_key {folder}/server.key;
    client_max_body_size 16m;

    location /v1/fleet/ {{
        proxy_pass https://127.0.0.1:{inner};
        proxy_ssl_trusted_certificate {folder}/ca.crt;
        proxy_ssl_verify on;
        proxy_ssl_name localhost;
        proxy_read_timeout 300s;
        proxy_request_buffering off;
    }}
    location / {{
        return 403;
    }}
}}
"""

GUIDE = """\
# A federation of {count} clients

Made by `safle deploy init`; check it with `safle deploy check .` at any time.

    ca/           the authority's key. Keep it offline; it is needed only for new certificates.
    server/       goes to {host}
    nodes/NAME/   goes to the machine of client NAME, and to nobody else

On every machine: Python 3.11 or newer and `pip install 'safle[flower]'`; where that is not in
{venv}, set SAFLE_VENV.

1. Server: put the federation's `encoder.safetensors` into `server/`, then `./start.sh`.
2. Server, in a second terminal: `./register.sh`.
3. Each node: `SAFLE_FEATURES=/path/to/table ./start.sh`.
4. Server: `./status.sh`, and when all are online `./run.sh`. The model is in `results/`.

The server's port also has Flower's control API, which asks for no login: whoever reaches it can
run programs on the server and on every node. Close it: `server/nginx.conf`, or a firewall that
lets only the nodes' addresses in and nobody on them but their nodes. The units `*.service` are
for systemd.
"""
