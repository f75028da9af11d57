"""A keyholder: opens sums of enough clients, and never two whose difference is few clients.

The history names a sum, on the disk, before any mask is added up: a crash cannot lose it. Sums of
one round are judged by `check_sets`, without exception; those of all rounds together by
`find_exposed`, and all who are given away must be named to open the sum nevertheless.

A history that was lost, or an older copy of it, knows too little to judge. So it is begun once, on
purpose, and a round may name sums that it must hold.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from safle import container, log_refusal, write_log
from safle.basics import Row, StrPath, append_row, atomic, locked, now, read_rows
from safle.errors import FederationError, StoreError
from safle_private.differences import check_despite, check_sets, describe, find_exposed
from safle_private.keys import PrivateKey, SignedHeader
from safle_private.ledger import Ledger
from safle_private.messages import KeyholderAnswer, Request
from safle_private.noise import epsilon_of
from safle_private.round import PrivateRound
from safle_private.vector import SEED_BYTES, derive_key

_EMPTY = (
    "this history is empty: if you have opened sums before, name the folder that holds them; if "
    "this is your first sum, say --new-history"
)


class History:
    """The sums that a keyholder has opened, in a folder, on the disk when a call returns.

    - ``opened.jsonl``, a journal: a row that begins it, and one for each set (see `describe`), with
      those whom it gives away (``despite``);
    - ``releases.jsonl``, the ledger of the rounds with noise;
    - ``REQUEST.answer``, the answer to a request that opens with noise.

    Parameters
    ----------
    new : begin it, or go on with one that lacks sums which a round names

    Attributes
    ----------
    ledger : the rounds with noise

    Raises
    ------
    FederationError
        ``new`` is false, and the history is missing, or empty and not begun.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     History(f"{folder}/board", new=True).sets()
    ...     try:
    ...         History(f"{folder}/boards")
    ...     except FederationError as error:
    ...         print(str(error)[:40])
    []
    this history is empty: if you have opene
    """

    def __init__(self, folder: StrPath, *, new: bool = False) -> None:
        self.folder = Path(folder)
        self.new = new
        self.ledger = Ledger(self.folder / "releases.jsonl")
        self._journal = self.folder / "opened.jsonl"
        rows = self._rows()
        self._found = len(self.sets())
        if not rows and not new:
            raise FederationError(_EMPTY)
        if not rows:
            atomic.make_folder(self.folder)
            atomic.flush(self.folder.parent)
            with locked(self._journal):
                append_row(self._journal, {"time": now()})

    def _rows(self) -> list[Row]:
        try:
            if self.folder.exists() and not self.folder.is_dir():
                raise StoreError(f"{self.folder}: not a folder; expected one that safle wrote")
            return read_rows(self._journal) if self._journal.exists() else []
        except (StoreError, OSError) as error:
            raise StoreError(f"{error}; without its history a keyholder must not answer") from error

    def sets(self) -> list[Row]:
        """The sets that were opened, or were about to be, in all rounds; see `describe`."""
        return [row for row in self._rows() if "request" in row]

    def check(self, request: Request, keyholder: str, despite: Collection[str] = ()) -> bool:
        """Refuse a request because of what was opened before; return whether it is a new one.

        Parameters
        ----------
        despite : all clients whom the sum gives away together with those of other rounds
        """
        asked = describe(request)
        before = self.sets()
        if any(asked["request"] == one["request"] for one in before):
            return False
        self._check_age(request.private_round, keyholder, before)
        same_round = [one["members"] for one in before if one["round"] == asked["round"]]
        if same_round and request.private_round.privacy is not None:
            raise FederationError(
                "a set of this round was opened before, and every sum that opens with noise "
                "costs as much privacy as the first: declare a new round"
            )
        check_sets([*same_round, asked["members"]], asked["least"])
        check_despite(find_exposed(asked, before), despite)
        return True

    def _check_age(self, private_round: PrivateRound, keyholder: str, before: list[Row]) -> None:
        """Refuse a history that lacks what the round says it holds, unless it is a new one."""
        expected = private_round.after.get(keyholder, ())
        missing = {*expected} - {one["request"] for one in before}
        if missing and not self.new:
            raise FederationError(
                f"this history lacks {len(missing)} of the {len(expected)} sums that you have "
                "opened before, as the round says: it is an older copy, or another's; bring the "
                "right one back, or say --new-history if it is lost"
            )
        if self.new and self._found and not missing:
            raise FederationError(
                f"this history is not new, it holds sums: {self._found}; leave --new-history out"
            )

    def add(self, request: Request, keyholder: str, despite: Collection[str] = ()) -> None:
        """Check a request against all earlier ones, and note it."""
        with locked(self._journal):
            if self.check(request, keyholder, despite):
                row = {"time": now(), **describe(request), "despite": sorted({*despite})}
                append_row(self._journal, row)

    def keep_answer(self, request: Request, data: bytes) -> bytes:
        """Keep the first answer to a request, and return it: new noise could be averaged away."""
        with locked(self._journal):
            kept = self.find_answer(request)
            if kept is not None:
                return kept
            atomic.write_bytes(self._answer_path(request), data)
        return data

    def find_answer(self, request: Request) -> bytes | None:
        """The answer that was kept for a request; only answers with noise are kept."""
        path = self._answer_path(request)
        return container.read_limited(path) if path.exists() else None

    def _answer_path(self, request: Request) -> Path:
        return self.folder / f"{request.digest}.answer"


def explain(request: Request, history: History) -> list[str]:
    """Say what a keyholder is asked to open, in sentences for the person who decides."""
    private_round = request.private_round
    clients = request.heads
    asked = describe(request)
    opened = history.sets()
    before = [one for one in opened if one["round"] == asked["round"]]
    past = f"Sets of this round that you have opened before: {len(before)}."
    known = asked["request"] in {one["request"] for one in before}
    if known:
        past = "You have opened this very set before: the answer will be the same."
    if not opened:
        past = "Your history is new. If you have answered before, stop, and name your old history."
    noise = ""
    promised = private_round.privacy
    if promised is not None:
        noise = f" You add noise: {promised.promise}, even if the others add none."
        if not before and (spent := history.ledger.releases()):
            rho = sum((release["rho"] for release in spent), promised.rho)
            together = epsilon_of(rho, promised.delta)
            noise += (
                f" Rounds with noise that you have opened before: {len(spent)}; all together, for "
                f"the same people, they make epsilon {together:.3g}."
            )
    text = f"""
{private_round.operator.name} asks you to open the sum of {len(clients)} of \
{len(private_round.clients)} clients of round {private_round.digest[:12]}…: {", ".join(clients)}.
The round opens sums of at least {private_round.least_clients} clients, if all keyholders answer: \
{", ".join(private_round.keyholders)}.
{past}
You open the sum of all these clients, and the value of none of them alone.{noise}"""
    lines = text.strip().splitlines()
    if not known and (exposed := find_exposed(asked, opened)):
        lines.append(
            "Beware: with the sums that you have opened before, this one gives away "
            f"{', '.join(exposed)}, if the clients count the same data in all rounds."
        )
    return lines


def answer_request(
    request: Request,
    key: PrivateKey,
    history: History,
    *,
    despite_difference: Collection[str] = (),
    log: Path | None = None,
) -> KeyholderAnswer:
    """Add up a keyholder's masks of a request's clients; the same request gets the same answer.

    Parameters
    ----------
    despite_difference : every client whom this sum gives away, together with sums of other rounds
        in the history, and whom you accept to give away; it is noted there
    log : file in which this call notes that it has answered, or why it refused, before it returns

    Raises
    ------
    FederationError
        Too few clients, a box that is not this keyholder's, a set that differs by too few clients
        from what was opened before, or a history that is older than the round says.
    """
    if log is None:
        return _answer(request, key, history, despite_difference)
    about: dict[str, Any] = {"who": key.name, "digest": request.digest, "place": log}
    with log_refusal(**about):
        answer = _answer(request, key, history, despite_difference)
    note = f"a sum of {len(request.heads)} clients"
    if despite_difference:
        note += f", which gives away {', '.join(sorted({*despite_difference}))}"
    write_log("opened", note=note, **about)
    return answer


def require_keyholder(private_round: PrivateRound, key: PrivateKey) -> None:
    """`FederationError` unless the key is one of the round's keyholders'."""
    if private_round.keyholders.get(key.name) != key.public:
        raise FederationError(
            f"{key.name}'s key is not a keyholder's of this round; use a key that the round lists"
        )


def _answer(
    request: Request, key: PrivateKey, history: History, despite: Collection[str]
) -> KeyholderAnswer:
    private_round = request.private_round
    require_keyholder(private_round, key)
    mask_keys = [_open_mask_key(head, private_round, key) for head in request.heads.values()]
    history.add(request, key.name, despite)
    if kept := history.find_answer(request):
        return KeyholderAnswer.from_bytes(kept, private_round)
    masks = private_round.moduli.zeros()
    private_round.moduli.add_masks(masks, mask_keys)
    answer = KeyholderAnswer(key.name, private_round.digest, request.digest, masks)
    if private_round.privacy is None:
        return answer
    privacy = private_round.privacy
    history.ledger.spend(private_round.statistics.space, privacy.epsilon, privacy.delta)
    private_round.hide(masks)
    return KeyholderAnswer.from_bytes(
        history.keep_answer(request, answer.to_bytes(key)), private_round
    )


def _open_mask_key(head: SignedHeader, private_round: PrivateRound, key: PrivateKey) -> bytes:
    """The key of the mask that a client has given to a keyholder; errors name the client."""
    client = str(head.fields["client"])
    try:
        box = bytes.fromhex(head.fields["boxes"][key.name])
        seed = key.open_box(box, private_round.bound_to(client, head.payload_digest, key.name))
        if len(seed) != SEED_BYTES:
            raise FederationError(f"its box holds {len(seed)} bytes; expected {SEED_BYTES}")
    except (FederationError, ValueError) as error:
        raise FederationError(f"{client}: {error}; ask for a sum without {client}") from error
    return derive_key(seed, private_round.digest, client, key.name)
