"""``safle policy``: a file of rules to begin with."""

from __future__ import annotations

from pathlib import Path

from safle.basics import atomic
from safle.cli import options as opt
from safle.cli.session import Session, command


@command("safle policy -o policy.toml")
@opt.output("The policy to write.")
def policy(session: Session, /, output: Path) -> None:
    """Write a policy that says what may leave this site, to read and to change.

    Every command whose file leaves obeys the file that --policy or $SAFLE_POLICY names.
    """
    from safle.site.policy import EXAMPLE

    atomic.write_text(output, EXAMPLE)
    session.text([f"{output}: a policy; read it, change what does not suit you, and name it in"])
    session.text(["--policy, or in the environment variable SAFLE_POLICY"])
