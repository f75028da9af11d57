"""K clients on one machine: a table, split by a partition, through Flower or in-process."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from safle._internal import atomic
from safle.data.tables import open_table
from safle.errors import FederationError, SettingsError
from safle.federation.database import count_members
from safle.federation.flower import processes
from safle.federation.flower.report import Report
from safle.federation.flower.server import REPORT, serve
from safle.federation.flower.settings import Run

CLIENT_APP = "safle.lab.simulation.client_app:app"
SETTINGS = "simulation.json"
SECONDS_BETWEEN_LOOKS = 0.5
Progress = Callable[[float], None]


def simulate(
    run: Run,
    output: Path,
    *,
    clients: int,
    engine: str = "flower",
    progress: Progress | None = None,
) -> Report:
    """Run a federation of ``clients`` simulated clients; its report.

    Parameters
    ----------
    run : names the encoder and the table; ``store`` and ``output`` are chosen here
    output : folder of the model, the report and the store; an unfinished run goes on in it
    engine : "flower" (processes, Ray) or "in-process"
    progress : called with the share of the clients that are in
    """
    # A file that nobody can read is one error here, and not one a client.
    open_table(run.simulation.features, split=run.simulation.split or None)
    output = output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    # One machine counts no more clients at once than it has cores; as many again may wait, so
    # that neither side is idle. More would only lie in the server's memory.
    at_once = 2 * (os.cpu_count() or 1)
    run = replace(
        run,
        places=replace(run.places, store=str(output / "store"), output=str(output)),
        rules=replace(run.rules, clients=clients, at_once=at_once),
    )
    _remember(output / SETTINGS, run)
    if engine == "in-process":
        _in_process(run, clients, progress)
    elif engine == "flower":
        _through_flower(run, output, clients, progress)
    else:
        raise SettingsError(f"engine {engine!r}; expected flower or in-process")
    return Report.read(output / REPORT)


def _remember(path: Path, run: Run) -> None:
    """An unfinished simulation goes on only with the very same settings."""
    wanted = {**asdict(run.simulation), "clients": run.rules.clients, "encoder": run.places.encoder}
    if path.exists() and (before := json.loads(path.read_text())) != wanted:
        changed = [name for name in wanted if before.get(name) != wanted[name]]
        raise SettingsError(
            f"{path.parent} holds a simulation with another {', '.join(changed)}: what it counted "
            "would be taken for this one's; choose another folder"
        )
    atomic.write_text(path, json.dumps(wanted, indent=1) + "\n")


def _in_process(run: Run, clients: int, progress: Progress | None) -> None:
    from safle.federation.flower.adapter import InProcessGrid
    from safle.lab.simulation.client_app import app

    nodes = [{"partition-id": at, "num-partitions": clients} for at in range(clients)]
    serve(InProcessGrid(app, nodes, run.to_flat()), run, progress=progress)


def _through_flower(run: Run, output: Path, clients: int, progress: Progress | None) -> None:
    from safle.federation.flower.apps import write_app

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
        resources = f"num-supernodes={clients} client-resources-num-cpus=1"
        # Ray, told that there is one, would keep every client waiting for the other core.
        resources += f" init-args-num-cpus={os.cpu_count() or 1}"
        number = processes.start_run(app, "--federation-config", resources, env=env)
        status = _follow(number, run.places.path("store"), clients, progress, env)
    if status != "finished:completed":
        raise FederationError(
            f"the simulation ended as {status}; {_why(output)}its last words:\n"
            f"{processes.tail(log)}"
        )


def _follow(
    run: str, store: Path, clients: int, progress: Progress | None, env: dict[str, str]
) -> str:
    """Wait for the end of a run; its status."""
    looked = 0.0
    while True:
        if progress is not None:
            progress(min(1.0, count_members(store) / clients))
        # Asking Flower starts a program; reading a database does not.
        if time.monotonic() - looked > 4 * SECONDS_BETWEEN_LOOKS:
            status = processes.run_status(run, env=env)
            if status.startswith("finished"):
                return status
            looked = time.monotonic()
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _why(output: Path) -> str:
    path = output / REPORT
    error = Report.read(path).error if path.exists() else ""
    return f"{error}; " if error else ""
