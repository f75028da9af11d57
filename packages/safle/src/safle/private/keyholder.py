"""A keyholder: opens sums of enough clients, and never two that tell few clients apart.

What was opened is on the disk before any mask is added up, so a crash cannot make it forget.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safle.errors import FederationError
from safle.private.gathering import KeyholderAnswer, Request
from safle.private.history import History, Opened, warnings_across_rounds
from safle.private.keys import PrivateKey
from safle.private.masked import open_mask_key
from safle.private.spaces import NoisySpace
from safle.private.vector import add_masks
from safle.publishing.noise import epsilon_of
from safle.site.log import log_refusal, write_log


def explain(request: Request, history: History) -> list[str]:
    """What a keyholder is asked to open, in sentences for the person who decides.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle.private import EvaluationSpace, Parties
    >>> from safle.evaluation import Evaluation
    >>> parties = Parties.of(EvaluationSpace("0" * 64, ("ill",), 100), ["a", "b"])
    >>> request = parties.gather([Evaluation.none("0" * 64, ["ill"])] * 2).request
    >>> with TemporaryDirectory() as folder, History(f"{folder}/history.sqlite") as history:
    ...     print(explain(request, history)[-1])
    What opens is the sum of all these clients, and of none of them alone.
    """
    private_round, clients = request.private_round, request.heads
    opened, asked = history.sets(), Opened.of(request)
    before = [one.members for one in opened if one.round_digest == private_round.digest]
    already = f"Sets of this round that you have opened before: {len(before)}."
    if request.members in before:
        already = "You have opened this very set before: the answer will be the same."
    if not opened:
        already = "Your history is empty: if you have answered before, stop, and name the old file."
    noise = ""
    if isinstance(private_round.space, NoisySpace):
        noise = f" You add noise: {private_round.space.privacy.promise}, whatever the others do."
        if not before and (spent := history.ledger.releases()):
            rho = sum((release.rho for release in spent), private_round.space.privacy.rho)
            together = epsilon_of(rho, private_round.space.delta)
            noise += (
                f" Rounds with noise that you have opened before: {len(spent)}; all together, of "
                f"the same people, they make epsilon {together:.3g}."
            )
    text = f"""
{private_round.operator.name} asks you to open the sum of {len(clients)} of \
{len(private_round.clients)} clients of round {private_round.digest[:12]}…: {", ".join(clients)}.
The round opens sums of at least {private_round.fewest} clients, if all keyholders answer: \
{", ".join(private_round.keyholders)}.
{already}
What opens is the sum of all these clients, and of none of them alone.{noise}"""
    return [*text.strip().splitlines(), *warnings_across_rounds(asked, opened)]


def answer_on_record(
    request: Request, key: PrivateKey, history: History, *, place: Path | None = None
) -> KeyholderAnswer:
    """`answer_request`, with a row in a log, this site's by default, before anybody else has it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle.private import EvaluationSpace, Parties
    >>> from safle.evaluation import Evaluation
    >>> parties = Parties.of(EvaluationSpace("0" * 64, ("ill",), 100), ["a", "b"])
    >>> request = parties.gather([Evaluation.none("0" * 64, ["ill"])] * 2).request
    >>> key = parties.keyholders[0]
    >>> with TemporaryDirectory() as folder, History(f"{folder}/history.sqlite") as history:
    ...     answered = answer_on_record(request, key, history, place=Path(folder, "log.sqlite"))
    >>> answered.keyholder
    'keyholder-1'
    """
    about: dict[str, Any] = {"who": key.name, "digest": request.digest, "place": place}
    with log_refusal(**about):
        answer = answer_request(request, key, history)
    write_log("opened", note=f"a sum of {len(request.heads)} clients", **about)
    return answer


def answer_request(request: Request, key: PrivateKey, history: History) -> KeyholderAnswer:
    """The sum of a keyholder's masks of a request's clients; the same request has the same answer.

    Raises
    ------
    FederationError
        Too few clients, a box that is not this keyholder's, or a set that differs by too few
        clients from one that was opened before.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle.private import EvaluationSpace, Parties
    >>> from safle.evaluation import Evaluation
    >>> parties = Parties.of(EvaluationSpace("0" * 64, ("ill",), 100), ["a", "b"])
    >>> request = parties.gather([Evaluation.none("0" * 64, ["ill"])] * 2).request
    >>> key = parties.keyholders[0]
    >>> with TemporaryDirectory() as folder, History(f"{folder}/history.sqlite") as history:
    ...     once, again = (answer_request(request, key, history) for _ in range(2))
    >>> once.to_bytes(key) == again.to_bytes(key)
    True
    """
    private_round = request.private_round
    if key.name not in private_round.keyholders or private_round.keyholders[key.name] != key.public:
        raise FederationError(f"{key.name}'s key is not a keyholder's of this round")
    mask_keys = [open_mask_key(head, private_round, key) for head in request.heads.values()]
    history.add(request)
    if kept := history.kept(request):
        return KeyholderAnswer.from_bytes(kept, private_round)
    masks = private_round.sizes.zeros()
    add_masks(private_round.sizes, masks, mask_keys)
    answer = KeyholderAnswer(key.name, private_round.digest, request.digest, masks)
    if not isinstance(private_round.space, NoisySpace):
        return answer
    space = private_round.space
    history.ledger.spend(space.exact.space, space.epsilon, space.delta)
    space.hide(masks)
    return KeyholderAnswer.from_bytes(history.keep(request, answer.to_bytes(key)), private_round)
