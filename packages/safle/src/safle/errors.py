"""Every error safle raises on purpose, under one base class.

A message says what was found, what was expected and what to do about it.
"""

from __future__ import annotations


class SafleError(Exception):
    """Base of all errors that safle raises on purpose.

    >>> from safle import declared_range
    >>> try:
    ...     declared_range(1, 0, feature_dim=2)
    ... except SafleError as error:
    ...     print(error)
    range [1, 0]; expected finite low < high
    """


class SafleWarning(UserWarning):
    """The given data may be wrong; the work goes on.

    Commands show it as a warning; in Python, filters of ``warnings`` decide what happens.

    >>> import warnings
    >>> warnings.simplefilter("error", SafleWarning)  # doctest: +SKIP
    """


class InvalidInput(SafleError, ValueError):
    """Features, labels or arguments that cannot be used as given."""


class SettingsError(SafleError, ValueError):
    """Encoder settings that contradict each other or overflow."""


class EncoderMismatch(SafleError, ValueError):
    """Values of different encoders, or features of another backbone than the encoder's."""


class CountOverflow(SafleError, OverflowError):
    """A count that would leave its integer type."""


class InvariantError(SafleError, ValueError):
    """Statistics that no data set could have produced."""


class DuplicateContribution(SafleError, ValueError):
    """The same contribution offered twice."""


class LimitExceeded(SafleError, ValueError):
    """A contribution of more than the operator of a federation allows."""


class PolicyRefused(SafleError, ValueError):
    """A contribution or file that a site's policy does not let out; ``rule`` names the rule."""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class StoreError(SafleError, ValueError):
    """A store of contributions that cannot be used as asked."""


class PrivacyBudgetSpent(SafleError, ValueError):
    """A release that, with earlier ones, would exceed the privacy budget."""


class FederationError(SafleError, ValueError):
    """A round over the network that cannot go on, or an answer that does not belong in it."""


class WireError(SafleError, ValueError):
    """Bytes that are not a valid safle file."""


class TableError(InvalidInput):
    """A features or labels file that cannot be read; ``line`` is the faulty line, if known.

    >>> TableError("visits.csv: line 7 has no label", line=7).line
    7
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class ImageError(SafleError, ValueError):
    """An image, or a set of them, that cannot be read."""


class BackboneError(SafleError, ValueError):
    """A backbone, or its weights, that cannot be used."""


class SolveError(SafleError, ArithmeticError):
    """A linear system that could not be solved as asked."""


class NotEnoughMemory(SafleError, MemoryError):
    """A computation that would not fit into memory; it is refused before it starts."""


class KernelsError(SafleError, ImportError):
    """Compiled kernels that are missing, or were not built from the sources beside them."""


class MissingExtra(SafleError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, requirement: str, purpose: str) -> None:
        # What it was made of: a cluster makes it again where it is shown.
        super().__init__(package, requirement, purpose)

    def __str__(self) -> str:
        package, requirement, purpose = self.args
        return (
            f"{purpose} needs {package}, which is not installed; run: pip install '{requirement}'"
        )
