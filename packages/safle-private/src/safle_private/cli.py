"""``safle private``: sums of contributions that nobody can read one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import rich_click as click

import safle_private as library
from safle import (
    Evaluation,
    Histogram,
    Statistics,
    Summable,
    container,
    format_named,
    load_encoder,
    load_model,
    log_refusal,
    site_log,
    write_log,
)
from safle import cli as opt
from safle.basics import atomic, naming, readable
from safle.cli import Session, command, counts_facts, examples
from safle.errors import FederationError
from safle_private.keyholder import explain, require_keyholder
from safle_private.messages import gather_files
from safle_private.release import round_options
from safle_private.round import load_round

ROUND = "--round round.private --operator operator.pub"
PARTIES = (
    "--client a.pub --client b.pub --client c.pub --keyholder k1.pub --keyholder k2.pub "
    "--most-total-samples 10000 --key operator.key"
)
ANSWER = f"safle private answer request.ask {ROUND}"
EXAMPLES = (
    "safle private keys hospital-a -o hospital-a.key",
    f"safle private round --encoder e.safetensors --classes ill,well {PARTIES} -o round.private",
    f"safle count hospital_a.csv --encoder encoder.safetensors {ROUND} --key a.key -o a.masked",
    f"safle private sum a.masked b.masked c.masked {ROUND} --request request.ask -o sum.masked",
    f"{ANSWER} --key k1.key --history k1.history --new-history -o k1.answer",
    f"{ANSWER} --key k2.key --history k2.history --new-history -o k2.answer",
    f"safle private open sum.masked k1.answer k2.answer {ROUND} -o total.stats",
)
FILES = "Masked files: paths, folders, or addresses for fsspec."
KEY = "The private key to write, a new file; the public key goes beside it, with the suffix .pub."
REQUEST = "The request to write; every keyholder gets a copy."
HISTORY = "Your history of opened sums; always the same folder, never an older copy."
NEW_HISTORY = (
    "Begin the history, with your first sum. Also if the old one is lost: then nobody can say what "
    "this sum gives away together with earlier ones."
)
BEGIN_HISTORY = "For a keyholder: begin the history of opened sums too, a new folder."
DESPITE = (
    "Open the sum although, together with sums of other rounds, it gives this client away; once "
    "for each client that the refusal names. Your history keeps it. --yes does not replace it."
)
AFTER = (
    "A keyholder's answer to an earlier round, or a folder of such files, *.answer: its history "
    "must hold that sum, or is refused as an older copy; once for each."
)
MODEL = "For evaluation counts: the model that all sites evaluate."
CLASSES = "For statistics: every class that any client may have."
FEATURES = "Goes with --low and --high: the number of features."
EPSILON = (
    "For statistics: every keyholder adds noise that gives the opened sum this differential "
    "privacy."
)
CALIBRATION = "Goes with --epsilon: where the encoder's thresholds came from."
SAMPLES = "Most samples of all clients together; a larger number makes larger files."
CLIENT = "A client's public key; once for each."
KEYHOLDER = (
    "A keyholder's public key; up to three, two are usual. All of them must answer: if one is "
    "lost, so is the round. A server with all of them but one learns nothing."
)
LEAST = (
    "Fewest clients whose sum is opened, and by which two opened sums may differ; by default half "
    "of the clients, and at least 3."
)
OPERATOR_KEY = "The operator's private key, which signs the round."
DELTA = "The delta of the differential privacy; goes with --epsilon."


@click.group(panel="Private sums", epilog=examples(*EXAMPLES, title="A private round by files:"))
def private() -> None:
    """Add up contributions that nobody can read, the server included.

    Clients send their sums under masks; keyholders (other hospitals, an ethics board) open the
    total of enough clients, and nothing else. The total is, byte for byte, that of plain files.
    """


@command(EXAMPLES[0], of=private)
@click.argument("name", help="Who you are in the round: hospital-a.")
@opt.file_option("-o --output", KEY, required=True)
@opt.option("--new-history history_path", BEGIN_HISTORY, "FOLDER", type=opt.FOLDER)
def keys(session: Session, /, name: str, output: Path, history_path: Path | None) -> None:
    """Make the two keys of a client, a keyholder or an operator.

    The private key stays with you, and nobody needs a copy. Take the public one to the operator in
    a way in which nobody can change it. A keyholder makes new keys for every round and deletes them
    after it, so that a later thief cannot open anything.
    """
    key = library.PrivateKey.new(name)
    public = output.with_suffix(".pub")
    for path in map(atomic.check_place, (output, public)):
        if path.exists() or output == public:
            raise click.UsageError(f"-o {output}: {path} would be overwritten; name another file")
    if history_path is not None:
        if history_path.exists():
            raise click.UsageError(f"--new-history {history_path}: it exists; keep it, and use it")
        library.History(history_path, new=True)
    key.save(output)
    key.public.save(public)
    facts = {"name": name, "public key": public, "fingerprint": key.public.fingerprint}
    session.facts(f"{output}: private key", facts)


@command(
    EXAMPLES[1],
    f"safle private round --low 0 --high 16 --features 64 {PARTIES} -o round.private",
    f"safle private round --model model.safetensors {PARTIES} -o evaluation.private",
    name="round",
    of=private,
)
@opt.file_option("--encoder encoder_path", "For statistics: the encoder.")
@opt.option("--classes", CLASSES, "A,B,C")
@opt.grid_options
@opt.option("--features", FEATURES, "N", type=opt.COUNT)
@opt.file_option("--model model_path", MODEL)
@opt.option("--most-total-samples most", SAMPLES, "N", type=opt.COUNT, required=True)
@opt.option("--epsilon", EPSILON, "E", type=opt.POSITIVE)
@opt.option("--delta", DELTA, "D", type=opt.POSITIVE)
@opt.option("--calibration", CALIBRATION, type=click.Choice(["declared", "public"]))
@opt.file_option("--client clients", CLIENT, multiple=True, required=True)
@opt.file_option("--keyholder keyholders", KEYHOLDER, multiple=True, required=True)
@opt.option("--least least_clients", LEAST, "N", type=click.IntRange(min=2))
@opt.option("--after earlier_answers", AFTER, "PLACE", type=opt.PLACE, multiple=True)
@opt.file_option("--key key_path", OPERATOR_KEY, required=True)
@opt.output("The round file to write; all parties need it.")
def declare(session: Session, /, key_path: Path, output: Path, **options: Any) -> None:
    """Declare a private round: what is summed, by which clients, and who opens the sum.

    It sums statistics (--encoder, --classes), histograms for a calibration (--schema; or --low and
    --high, and --features), or evaluation counts (--model). The round goes on without
    clients who stay away.
    """
    parties = {
        name: [library.PublicKey.load(path) for path in options[name]]
        for name in ("clients", "keyholders")
    }
    zero = _zero(options)
    private_round = library.declare_round(
        library.PrivateKey.load(key_path),
        zero,
        options["most"],
        **parties,
        least_clients=options["least_clients"],
        after=_requests_of(options["earlier_answers"]),
        privacy=_noise(zero, options),
    )
    atomic.write_bytes(output, private_round.data)
    facts = {
        "operator": private_round.operator.name,
        "clients": ", ".join(private_round.clients),
        "keyholders": ", ".join(private_round.keyholders),
        "needed to open": f"all keyholders, at least {private_round.least_clients} clients",
        "a client sends": readable(private_round.moduli.size),
        "round": private_round.digest,
    }
    session.facts(f"{output}: private round", facts)


def _requests_of(answers: Sequence[Path]) -> dict[str, set[str]]:
    """The requests that keyholders have answered, by keyholder."""
    found: dict[str, set[str]] = {}
    files = [sorted(path.glob("*.answer")) if path.is_dir() else [path] for path in answers]
    for path in chain(*files):
        with naming(path):
            data = container.read_limited(path)
            keyholder, request = library.KeyholderAnswer.read_names(data)
        found.setdefault(keyholder, set()).add(request)
    return found


def _noise(zero: Summable, options: dict[str, Any]) -> library.Privacy | None:
    """The noise of every keyholder, by the options; None if the sum opens exactly."""
    noise = {name: options[name] for name in ("epsilon", "delta", "calibration")}
    if not any(noise.values()):
        return None
    if not all(noise.values()) or not isinstance(zero, Statistics):
        raise click.UsageError("--epsilon, --delta and --calibration go together, with --encoder")
    return library.plan_noise(zero.layout, **noise)


def _zero(options: dict[str, Any]) -> Summable:
    """The zero of the sum: of evaluation counts, of statistics or of histograms."""
    encoder_path = options["encoder_path"]
    model_path = options["model_path"]
    classes = opt.parse_classes(options["classes"])
    grid = opt.parse_grid(options)
    of_histograms = [options["features"], grid]
    if model_path is not None and not any([encoder_path, classes, *of_histograms]):
        model = load_model(model_path)
        return Evaluation.empty(model.digest, model.class_names)
    if encoder_path and classes and not any([model_path, *of_histograms]):
        return Statistics.empty(load_encoder(encoder_path).space, classes)
    if grid and any([options["features"], grid["names"]]) and not (encoder_path or classes):
        return Histogram.empty(feature_dim=options["features"] or 0, **grid)
    raise click.UsageError(
        "give --encoder and --classes, or --schema, or --low and --high and --features, or "
        "--model alone"
    )


@command(EXAMPLES[3], name="sum", of=private)
@click.argument("files", nargs=-1, required=True, help=FILES)
@round_options(key=False, required=True)
@opt.written("--request", REQUEST, required=True)
@opt.output("The masked sum to write; it stays here until the keyholders have answered.")
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

    Every signature is checked against the round's list of parties, and no client is added twice.
    One file is in memory at a time.
    """
    private_round = load_round(round_path, operator_path)
    with session.progress(f"summing {len(files)} files") as advance:
        total = gather_files(private_round, files, advance)
    atomic.write_together({output: total.to_bytes(), request: total.request.to_bytes()})
    facts = {
        "clients": f"{len(total.request.heads)} of {len(private_round.clients)}",
        "request": f"{request} ({readable(request.stat().st_size)}), for "
        f"{', '.join(private_round.keyholders)}, who all must answer",
        "digest": total.request.digest,
    }
    session.facts(f"{output}: masked sum", facts)


@command(EXAMPLES[4], of=private)
@click.argument("request", type=opt.FILE, help="The server's request.")
@round_options(required=True)
@opt.option("--history history_path", HISTORY, "FOLDER", type=opt.FOLDER, required=True)
@opt.flag("--new-history", NEW_HISTORY)
@opt.option("--despite-difference", DESPITE, "CLIENT", multiple=True)
@opt.flag("--yes", "Answer without asking you; what is refused stays refused.")
@opt.output("The answer to write; send it to the server.")
def answer(
    session: Session,
    /,
    request: Path,
    round_path: Path,
    operator_path: Path,
    key_path: Path,
    history_path: Path,
    new_history: bool,
    despite_difference: tuple[str, ...],
    yes: bool,
    output: Path,
) -> None:
    """Open the sum of a request's clients, as one of the round's keyholders.

    Shows what would be opened and asks you first. Refuses too few clients, clients who are not in
    the round, and a set that differs by too few clients from one of this round that was opened
    before, or just overlaps with it: sums added and subtracted would give those few away. Refuses
    the same of other rounds, of any values, unless --despite-difference names everybody who
    is given away. What was opened is on the disk before the answer is made.
    """
    private_round = load_round(round_path, operator_path)
    key = library.PrivateKey.load(key_path)
    with naming(request):
        asked = library.Request.from_bytes(container.read_limited(request), private_round)
    # Before the question is asked and a history is made.
    with log_refusal(who=key.name, digest=asked.digest):
        require_keyholder(private_round, key)
        history = library.History(history_path, new=new_history)
    session.text(explain(asked, history))
    with log_refusal(who=key.name, digest=asked.digest):
        history.check(asked, key.name, despite_difference)
    if not yes and not click.confirm("Open this sum?"):
        raise FederationError(
            "you have not opened this sum: no answer was written, and your history is as it was"
        )
    answered = library.answer_request(
        asked, key, history, despite_difference=despite_difference, log=site_log()
    )
    atomic.write_bytes(output, answered.to_bytes(key))
    facts = {"keyholder": key.name, "clients": len(asked.heads), "request": asked.digest}
    session.facts(f"{output}: keyholder's answer", facts)


@command(
    EXAMPLES[6],
    "safle solve total.stats --encoder encoder.safetensors -o model.safetensors",
    name="open",
    of=private,
)
@click.argument("masked_sum", type=opt.FILE, metavar="SUM", help="The masked sum.")
@click.argument("answers", type=opt.FILE, nargs=-1, required=True, help="The keyholders' answers.")
@round_options(key=False, required=True)
@opt.output("The total to write: an ordinary file of what was added up.")
def open_total(
    session: Session,
    /,
    masked_sum: Path,
    answers: tuple[Path, ...],
    round_path: Path,
    operator_path: Path,
    output: Path,
) -> None:
    """Take the masks off the sum: its bytes are those of the sum of plain contributions.

    The total is verified before it is written. If it is not the sum of any data, nobody can
    say whose file was wrong: keep everything, and begin a new round.
    """
    private_round = load_round(round_path, operator_path)
    with naming(masked_sum):
        total = library.MaskedSum.from_bytes(container.read_limited(masked_sum), private_round)
    read_answers = []
    for path in answers:
        with naming(path):
            data = container.read_limited(path)
            read_answers.append(library.KeyholderAnswer.from_bytes(data, private_round))
    value = total.open(read_answers)
    file_type = format_named(value.format)
    data = file_type.encode(value)
    clients = ", ".join(total.request.heads)
    write_log(
        "opened", digest=hashlib.sha256(data).hexdigest(), note=f"{file_type.name} of {clients}"
    )
    atomic.write_bytes(output, data)
    facts = counts_facts(value, data)
    session.facts(f"{output}: {file_type.name}", {"clients": clients, **facts})
