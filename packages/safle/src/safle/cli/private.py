"""``safle private``: sums that nobody can open but as a whole."""

from __future__ import annotations

import rich_click as click

from safle.cli.options import examples
from safle.cli.private_answer import answer
from safle.cli.private_keys import keys
from safle.cli.private_open import open_total
from safle.cli.private_round import declare
from safle.cli.private_sum import add_up

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


@click.group(panel="Private sums", epilog=EXAMPLES)
def private() -> None:
    """Add up contributions that nobody can read, the server included.

    Clients send their sums under masks; keyholders (other hospitals, an ethics board) open the
    total of enough clients, and nothing else. The total is, byte for byte, that of plain files.
    Needs the extra private: pip install 'safle[private]'
    """


for command in (keys, declare, add_up, answer, open_total):
    private.add_command(command)
