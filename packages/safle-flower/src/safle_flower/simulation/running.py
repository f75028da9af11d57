"""K clients on one machine: a table, split by a partition, through Flower or in-process."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from safle.basics import atomic
from safle.encoders import load_encoder
from safle.errors import FederationError, SettingsError
from safle.private import PrivateKey, declare_round, statistics_space
from safle.server import Limits, count_members
from safle.tables import Table, open_table
from safle_flower import processes
from safle_flower.report import Report
from safle_flower.server import REPORT, serve
from safle_flower.settings import Places, Rules, Run
from safle_flower.simulation.simulation import Simulation
from safle_flower.tasks import SUFFIX

CLIENT_APP = "safle_flower.simulation.client_app:app"
SETTINGS = "simulation.json"
SECONDS_BETWEEN_LOOKS = 0.5
KEYHOLDERS = 2
"""How many keyholders a private simulation has."""
LEAST_CLIENTS = 3
"""The fewest clients whose sum these keyholders open."""
ENGINES = ("in-process", "flower")
Progress = Callable[[float], None]


def simulate(
    simulation: Simulation,
    output: Path,
    *,
    engine: str = "in-process",
    private: bool = False,
    deadline: float = Rules.deadline,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a federation of simulated clients and return its report.

    Parameters
    ----------
    output : folder of the model, the report and the store; an unfinished run in it is resumed
    engine : "in-process", or "flower" (processes, Ray)
    private : clients mask their contributions, and further nodes are keyholders
    progress : called with the share of the clients that have contributed
    """
    if engine not in ENGINES:
        raise SettingsError(f"engine {engine!r}; expected {' or '.join(ENGINES)}")
    # A file that cannot be read raises one error here instead of one per client.
    schema = load_encoder(simulation.encoder).schema
    table = open_table(simulation.features, schema=schema, **dict(simulation.selection))
    output = output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    keys = output / "keys"
    if private:
        simulation = replace(simulation, keys=str(keys))
    simulation.remember(output / SETTINGS)
    places = Places(
        str(output / "store"), str(output), simulation.encoder, simulation=str(output / SETTINGS)
    )
    if private:
        _prepare_private_round(simulation, table)
        round_file, operator = str(keys / "round.private"), str(keys / "operator.pub")
        places = replace(places, round=round_file, operator=operator)
    # One machine counts no more clients at once than it has cores; as many again may wait, so
    # that neither side is idle. More would only fill the server's memory.
    rules = Rules(
        clients=simulation.clients,
        least=min(Rules.least, simulation.clients),
        deadline=deadline,
        at_once=2 * (os.cpu_count() or 1),
    )
    # A split may leave clients without samples.
    run = Run(places, rules, replace(limits or Limits(), allow_empty=True))
    nodes = simulation.clients + (KEYHOLDERS if private else 0)
    start = _in_process if engine == "in-process" else _through_flower
    start(run, nodes, progress)
    return Report.read(output / REPORT)


def _prepare_private_round(simulation: Simulation, table: Table) -> None:
    """Write a key for every node, and a private round for the table's samples and classes."""
    folder = Path(simulation.keys)
    if (folder / "round.private").exists():
        return
    folder.mkdir(exist_ok=True)
    names = [simulation.name_of(number) for number in range(simulation.clients + KEYHOLDERS)]
    keys = {name: PrivateKey.new(name) for name in (*names, "operator")}
    for name, key in keys.items():
        simulation.key_of(name).unlink(missing_ok=True)
        key.save(simulation.key_of(name))
    keys["operator"].public.save(folder / "operator.pub")
    classes = [] if table.labels is None else sorted({*table.labels.tolist()})
    public = [keys[name].public for name in names]
    private_round = declare_round(
        keys["operator"],
        statistics_space(load_encoder(simulation.encoder), classes, max(1, len(table))),
        clients=public[: simulation.clients],
        keyholders=public[simulation.clients :],
        least=min(LEAST_CLIENTS, max(2, simulation.clients)),
    )
    atomic.write_bytes(folder / "round.private", private_round.data)


def _in_process(run: Run, count: int, progress: Progress | None) -> None:
    from safle_flower.adapter import InProcessGrid
    from safle_flower.simulation.client_app import app

    nodes = [{"partition-id": at, "num-partitions": count} for at in range(count)]
    serve(InProcessGrid(app, nodes, run.to_flat()), run, progress=progress)


def _through_flower(run: Run, count: int, progress: Progress | None) -> None:
    from safle_flower.apps import write_app

    output = run.places.path("output")
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
        resources = f"num-supernodes={count} client-resources-num-cpus=1"
        # Ray runs no more clients at once than this; with one core, all clients would queue for it.
        resources += f" init-args-num-cpus={os.cpu_count() or 1}"
        number = processes.start_run(app, "--federation-config", resources, env=env)
        status = _follow(number, run, progress, env)
    if status != "finished:completed":
        report = output / REPORT
        why = Report.read(report).error if report.exists() else ""
        raise FederationError(why or f"the simulation ended as {status}; read {log}")


def _follow(number: str, run: Run, progress: Progress | None, env: dict[str, str]) -> str:
    """Wait until a run ends, and return its status."""
    store = run.places.path("store")
    last_asked = 0.0
    while True:
        if progress is not None:
            arrived = count_members(store) or len([*store.glob(f"*{SUFFIX}")])
            progress(min(1.0, arrived / run.rules.clients))
        # Asking Flower starts a program; reading a database does not.
        if time.monotonic() - last_asked > 4 * SECONDS_BETWEEN_LOOKS:
            status = processes.run_status(number, env=env)
            if status.startswith("finished"):
                return status
            last_asked = time.monotonic()
        time.sleep(SECONDS_BETWEEN_LOOKS)
