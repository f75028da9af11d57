"""``safle private``: sums that nobody can open but as a whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

import rich_click as click

from safle.basics.atomic import write_together
from safle.basics.memory import readable
from safle.basics.places import naming
from safle.cli.facts import counts_facts
from safle.cli.options import (
    FILE,
    command,
    examples,
    option,
    output,
    refuse_overwriting,
    round_options,
    written,
)
from safle.cli.private_round import declare, load_round
from safle.cli.session import Session
from safle.errors import FederationError
from safle.private import History, KeyholderAnswer, MaskedSum, PrivateKey, Request, answer_request
from safle.private.keyholder import explain
from safle.private.messages import gather_files
from safle.site.log import site_log, write_log
from safle.site.release import kind_for
from safle.wire import container

ROUND = "--round round.private --operator operator.pub"
EXAMPLES = examples(
    "safle private keys hospital-a -o hospital-a.key",
    "safle private round --encoder encoder.safetensors --classes ill,well "
    "--most-total-samples 10000 --client a.pub --client b.pub --client c.pub --keyholder k1.pub "
    "--keyholder k2.pub --key operator.key -o round.private",
    f"safle count hospital_a.csv --encoder encoder.safetensors {ROUND} --key a.key -o a.masked",
    f"safle private sum a.masked b.masked c.masked {ROUND} --request request.ask -o sum.masked",
    f"safle private answer request.ask {ROUND} --key k1.key --history k1.sqlite -o k1.answer",
    f"safle private answer request.ask {ROUND} --key k2.key --history k2.sqlite -o k2.answer",
    f"safle private open sum.masked k1.answer k2.answer {ROUND} -o total.stats",
    title="A private round by files:",
)
FILES = "Masked files: paths, folders, or addresses for fsspec."
KEY = "The private key to write; it replaces nothing. FILE ending in .pub is for the others."
REQUEST = "The request to write; every keyholder gets a copy."
HISTORY = "What you have opened before; always the same file, and never an older copy."


@click.group(epilog=EXAMPLES)
def private() -> None:
    """Add up contributions that nobody can read, the server included.

    Clients send their sums under masks; keyholders (other hospitals, an ethics board) open the
    total of enough clients, and nothing else. The total is, byte for byte, that of plain files.
    Needs the extra private: pip install 'safle[private]'
    """


@command("safle private keys hospital-a -o hospital-a.key")
@click.argument("name", help="Who you are in the round: hospital-a.")
@option("-o --output", KEY, "FILE", type=FILE, required=True)
def keys(session: Session, /, name: str, output: Path) -> None:
    """Make the two keys of a client, a keyholder or an operator.

    The private key stays with you, and nobody needs a copy. Take the public one to the
    operator by a way on which nobody can change it. A keyholder makes new keys for every round
    and deletes them after it: whoever steals them later opens nothing.
    """
    key, public = PrivateKey.new(name), output.with_suffix(".pub")
    for path in (output, public):
        if path.exists() or output == public:
            raise click.UsageError(f"-o {output}: {path} would be lost; name another file")
    key.save(output)
    key.public.save(public)
    facts = {"name": name, "public key": public, "fingerprint": key.public.fingerprint}
    session.facts(f"{output}: private key", facts)


@command(
    "safle private sum clients/*.masked --round round.private --operator operator.pub "
    "--request request.ask -o sum.masked",
    name="sum",
)
@click.argument("files", nargs=-1, required=True, help=FILES)
@round_options(key=False, required=True)
@written("--request", REQUEST, "request to keyholders", required=True)
@output("The masked sum to write; it stays here until the keyholders have answered.", "masked sum")
def add_up(
    session: Session,
    /,
    files: tuple[str, ...],
    round_path: Path,
    operator_path: Path,
    request: Path,
    output: Path,
) -> None:
    """Add up masked contributions, and ask the keyholders to open the sum.

    Every signature is checked against the round's roster, and no client is taken twice. One
    file is in memory at a time.
    """
    private_round = load_round(round_path, operator_path)
    with session.progress(f"summing {len(files)} files") as advance:
        total = gather_files(private_round, files, advance)
    write_together({output: total.to_bytes(), request: total.request.to_bytes()})
    facts = {
        "clients": f"{len(total.heads)} of {len(private_round.clients)}",
        "request": f"{request} ({readable(request.stat().st_size)}), for "
        f"{', '.join(private_round.keyholders)}, who all must answer",
        "digest": total.digest,
    }
    session.facts(f"{output}: masked sum", facts)


@command(
    "safle private answer request.ask --round round.private --operator operator.pub --key k.key "
    "--history k.sqlite -o k.answer",
)
@click.argument("request", type=FILE, help="The server's request.")
@round_options(required=True)
@option("--history history_path", HISTORY, "FILE", type=FILE, required=True)
@option("--yes", "Answer without asking back.", is_flag=True)
@output("The answer to write; send it to the server.", "keyholder's answer")
def answer(
    session: Session,
    /,
    request: Path,
    round_path: Path,
    operator_path: Path,
    key_path: Path,
    history_path: Path,
    yes: bool,
    output: Path,
) -> None:
    """Open the sum of a request's clients, as one of the round's keyholders.

    Says what would be opened and asks back. Refuses too few clients, clients who are not in
    the round, and a set that differs by too few clients from one that was opened before, or
    just overlaps with it: sums added and subtracted would give those few away. What was
    opened is on the disk before the answer is made.
    """
    refuse_overwriting(output, request, round_path, operator_path, key_path, history_path)
    private_round, key = load_round(round_path, operator_path), PrivateKey.load(key_path)
    with naming(request):
        asked = Request.from_bytes(container.read_limited(request), private_round)
    with History(history_path) as history:
        session.text(explain(asked, history))
        if not yes and not click.confirm("Open this sum?"):
            raise FederationError(
                "you have not opened this sum: no answer was written, and your history is as it was"
            )
        answered = answer_request(asked, key, history, log=site_log())
    container.write_file(output, answered.to_bytes(key))
    facts = {"keyholder": key.name, "clients": len(asked.heads), "request": asked.digest}
    session.facts(f"{output}: keyholder's answer", facts)


@command(
    "safle private open sum.masked k1.answer k2.answer --round round.private "
    "--operator operator.pub -o total.stats",
    "safle solve total.stats --encoder encoder.safetensors -o model.safetensors",
    name="open",
)
@click.argument("masked_sum", type=FILE, metavar="SUM", help="The masked sum.")
@click.argument("answers", type=FILE, nargs=-1, required=True, help="The keyholders' answers.")
@round_options(key=False, required=True)
@output(
    "The total to write: an ordinary file of what was added up.",
    "statistics",
    "histogram",
    "evaluation counts",
    "noisy statistics",
)
def open_total(
    session: Session,
    /,
    masked_sum: Path,
    answers: tuple[Path, ...],
    round_path: Path,
    operator_path: Path,
    output: Path,
) -> None:
    """Take the masks off the sum: the very bytes that plain contributions add up to.

    The total is verified before it is written. If it is not the sum of any data, nobody can
    say whose file was wrong: keep everything, and begin a new round.
    """
    refuse_overwriting(output, masked_sum, *answers)
    private_round = load_round(round_path, operator_path)
    with naming(masked_sum):
        total = MaskedSum.from_bytes(container.read_limited(masked_sum), private_round)
    opened = []
    for path in answers:
        with naming(path):
            opened.append(KeyholderAnswer.from_bytes(container.read_limited(path), private_round))
    value = total.open(opened)
    kind = kind_for(value)
    data, clients = kind.encode(value), ", ".join(total.heads)
    write_log("opened", digest=hashlib.sha256(data).hexdigest(), note=f"{kind.name} of {clients}")
    container.write_file(output, data)
    facts = counts_facts(value, size=len(data), digest=container.declared_digest(data))
    session.facts(f"{output}: {kind.name}", {"clients": clients, **facts})


for each in (keys, declare, add_up, answer, open_total):
    private.add_command(each)
