"""K clients on one machine: a table, split by a partition, through Flower or in-process."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from safle.basics import atomic
from safle.encoders import load_encoder
from safle.errors import FederationError, SettingsError
from safle.server.database import count_members
from safle.tables import Table
from safle_flower import processes
from safle_flower.client import open_configured
from safle_flower.private import SUFFIX
from safle_flower.report import Report
from safle_flower.server import REPORT, serve
from safle_flower.settings import Run

CLIENT_APP = "safle_flower.simulation.client_app:app"
SETTINGS = "simulation.json"
SECONDS_BETWEEN_LOOKS = 0.5
KEYHOLDERS, LEAST = 2, 3
"""Of a private simulation: its keyholders, and the fewest clients whose sum they open."""
SAID_OTHERWISE = {"features": "the table", "keys": "--private"}
"""Settings that `safle simulate` has no option of the same name for."""
Progress = Callable[[float], None]


def simulate(
    run: Run,
    output: Path,
    *,
    clients: int,
    engine: str = "in-process",
    private: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Run a federation of ``clients`` simulated clients; its report.

    Parameters
    ----------
    run : names the encoder and the table; ``store`` and ``output`` are chosen here
    output : folder of the model, the report and the store; an unfinished run goes on in it
    engine : "in-process", or "flower" (processes, Ray)
    private : contributions go under masks, and two more nodes are keyholders
    progress : called with the share of the clients that are in
    """
    # A file that nobody can read is one error here, and not one per client.
    table = open_configured(run.to_flat())
    output = output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    # One machine counts no more clients at once than it has cores; as many again may wait, so
    # that neither side is idle. More would only lie in the server's memory.
    at_once = 2 * (os.cpu_count() or 1)
    run = replace(
        run,
        places=replace(run.places, store=str(output / "store"), output=str(output)),
        # A split may leave clients without samples.
        limits=replace(run.limits, allow_empty=True),
        rules=replace(
            run.rules, clients=clients, at_once=at_once, least=min(run.rules.least, clients)
        ),
    )
    if private:
        run = _with_keys(run, output / "keys")
    _remember(output / SETTINGS, run)
    if private:
        _declare(run, table)
    if engine == "in-process":
        _in_process(run, progress)
    elif engine == "flower":
        _through_flower(run, output, clients, progress)
    else:
        raise SettingsError(f"engine {engine!r}; expected flower or in-process")
    return Report.read(output / REPORT)


def _remember(path: Path, run: Run) -> None:
    """An unfinished simulation goes on only with the very same settings."""
    wanted = {**asdict(run.simulation), "clients": run.rules.clients, "encoder": run.places.encoder}
    wanted["ignore"] = [*run.simulation.ignore]
    if path.exists() and (before := json.loads(path.read_text())) != wanted:
        options = {name: f"--{name.replace('_', '-')}" for name in wanted} | SAID_OTHERWISE
        changed = [options[name] for name in wanted if before.get(name) != wanted[name]]
        raise SettingsError(
            f"{path.parent} holds a simulation that differs in {', '.join(changed)}: what it "
            "counted would be taken for this one's; choose another folder"
        )
    atomic.write_text(path, json.dumps(wanted, indent=1) + "\n")


def _with_keys(run: Run, folder: Path) -> Run:
    """Where the keys and the declared round of a private simulation lie."""
    places = {"round": str(folder / "round.private"), "operator": str(folder / "operator.pub")}
    return replace(
        run,
        places=replace(run.places, **places),
        simulation=replace(run.simulation, keys=str(folder)),
    )


def _declare(run: Run, table: Table) -> None:
    """Keys for everybody, and the private round of all samples and classes of the table."""
    from safle.private.keys import PrivateKey
    from safle.private.round import declare_round, statistics_space

    folder, declared = Path(run.simulation.keys), run.places.path("round")
    if declared.exists():
        return
    folder.mkdir(exist_ok=True)
    clients = [f"client-{number:03d}" for number in range(run.rules.clients)]
    keyholders = [f"keyholder-{number + 1}" for number in range(KEYHOLDERS)]
    keys = {name: PrivateKey.new(name) for name in (*clients, *keyholders, "operator")}
    for name, key in keys.items():
        (folder / f"{name}.key").unlink(missing_ok=True)
        key.save(folder / f"{name}.key")
    keys["operator"].public.save(run.places.path("operator"))
    classes = [] if table.labels is None else sorted({*table.labels.tolist()})
    made = declare_round(
        keys["operator"],
        statistics_space(load_encoder(run.places.encoder), classes, max(1, len(table))),
        clients=[keys[name].public for name in clients],
        keyholders=[keys[name].public for name in keyholders],
        least=min(LEAST, max(2, len(clients))),
    )
    atomic.write_bytes(declared, made.data)


def _node_count(run: Run) -> int:
    return run.rules.clients + (KEYHOLDERS if run.places.round else 0)


def _in_process(run: Run, progress: Progress | None) -> None:
    from safle_flower.adapter import InProcessGrid
    from safle_flower.simulation.client_app import app

    count = _node_count(run)
    nodes = [{"partition-id": at, "num-partitions": count} for at in range(count)]
    serve(InProcessGrid(app, nodes, run.to_flat()), run, progress=progress)


def _through_flower(run: Run, output: Path, clients: int, progress: Progress | None) -> None:
    from safle_flower.apps import write_app

    home = output / "flower"
    app = write_app(home / "app", run, client=CLIENT_APP)
    env = processes.environment(home)
    port, log = processes.free_port(), home / "superlink.log"
    processes.name_connection(home, f"127.0.0.1:{port}")
    command = [processes.program("flower-superlink"), "--insecure", "--simulation"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    (output / REPORT).unlink(missing_ok=True)
    with processes.running(command, env=env, log=log) as superlink:
        processes.wait_until_healthy(port, superlink, log=log)
        resources = f"num-supernodes={_node_count(run)} client-resources-num-cpus=1"
        # Ray, told that there is one, would keep every client waiting for the other core.
        resources += f" init-args-num-cpus={os.cpu_count() or 1}"
        number = processes.start_run(app, "--federation-config", resources, env=env)
        status = _follow(number, run.places.path("store"), clients, progress, env)
    if status != "finished:completed":
        raise FederationError(_why(output) or f"the simulation ended as {status}; {log} says more")


def _follow(
    run: str, store: Path, clients: int, progress: Progress | None, env: dict[str, str]
) -> str:
    """Wait for the end of a run; its status."""
    looked = 0.0
    while True:
        if progress is not None:
            came = count_members(store) or len([*store.glob(f"*{SUFFIX}")])
            progress(min(1.0, came / clients))
        # Asking Flower starts a program; reading a database does not.
        if time.monotonic() - looked > 4 * SECONDS_BETWEEN_LOOKS:
            status = processes.run_status(run, env=env)
            if status.startswith("finished"):
                return status
            looked = time.monotonic()
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _why(output: Path) -> str:
    path = output / REPORT
    return Report.read(path).error if path.exists() else ""
