"""The interface of all methods: a `Task` goes in, a `Result` comes out.

A method is one function ``(task, settings) -> Result``. All methods get the same features, labels
and partition, and the result says how many bytes were sent. `Method` wraps every such function:
it checks the settings, times the work and measures the model's accuracy on the watched samples.
"""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from msgspec import Meta, Struct, structs
from numpy.typing import NDArray
from safetensors.numpy import save as to_safetensors
from sklearn.metrics import accuracy_score

from safle.basics import as_settings
from safle.errors import InvalidInput, SafleError

Features = NDArray[np.float32]
Labels = NDArray[np.int64]
Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""
Kind = Literal["analytic", "iterative", "one-shot"]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]


class MethodSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a method; a subclass has a field with a default for each."""


S = TypeVar("S", bound=MethodSettings)


class Predictor(Protocol):
    """The model that a method returns.

    A model of fewer classes than the task's has their numbers in ``class_names``.
    """

    def decision_function(self, features: Features) -> NDArray[Any]:
        """Scores, (samples, class_count); the class with the largest score is predicted."""


@dataclass(frozen=True)
class SeparateModels:
    """One model for each client, in the order of `Task.holders`, and no joint model."""

    members: Sequence[Predictor]


def predict(model: Predictor, features: Features) -> NDArray[Any]:
    """Class numbers of the largest scores, (samples,)."""
    scores = model.decision_function(features)
    names = getattr(model, "class_names", None)
    best = np.argmax(scores, axis=1)
    return best if names is None else np.asarray(names)[best]


class Stopwatch:
    """Counts the seconds that a method works, without the pauses for measuring it."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the seconds inside this block."""
        begin = time.perf_counter()
        yield
        self._begin += time.perf_counter() - begin

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin


@dataclass(frozen=True)
class Task:
    """Labelled features and their partition among clients.

    Attributes
    ----------
    features : float32, (samples, feature_dim)
    labels : int64, (samples,), in 0..class_count-1
    parts : sample numbers, one array per client
    seed : seed of everything random in the method
    watched : features and labels on which accuracy is recorded on the way; a method must not
        decide anything by them
    progress : called with the finished share, 0 to 1
    texts : embeddings of texts that describe the classes, (class_count, texts, feature_dim),
        the plainest of each class first; only vision-language methods use them
    watch : stopwatch of the method's work; a method pauses it while it measures itself
    """

    features: Features
    labels: Labels
    parts: Sequence[NDArray[np.int64]]
    class_count: int
    seed: int = 0
    watched: tuple[Features, Labels] | None = None
    progress: Progress = lambda _: None
    texts: Features | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.labels.shape != self.features.shape[:1]:
            raise InvalidInput(
                f"features of shape {self.features.shape} with labels of shape "
                f"{self.labels.shape}; expected (samples, features) and (samples,)"
            )
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < self.class_count:
            raise InvalidInput(
                f"labels {self.labels.min()} to {self.labels.max()}; expected class numbers "
                f"below {self.class_count}"
            )
        if not any(len(part) for part in self.parts):
            raise InvalidInput("no client holds any sample; expected at least one with samples")
        if self.texts is not None and self.texts.shape[::2] != (self.class_count, self.feature_dim):
            raise InvalidInput(
                f"texts of shape {self.texts.shape}; expected ({self.class_count}, texts, "
                f"{self.feature_dim}): as many classes and features as the samples have"
            )

    @property
    def feature_dim(self) -> int:
        return int(self.features.shape[1])

    @property
    def holders(self) -> list[NDArray[np.int64]]:
        """Parts that hold samples: a client without any has nothing to send."""
        return [part for part in self.parts if len(part)]

    def clients(self, *, reporting: float = 0.0) -> Iterator[tuple[Features, Labels]]:
        """Every holder's features and labels; progress rises to ``reporting`` with the last."""
        for done, part in enumerate(self.holders, start=1):
            yield self.features[part], self.labels[part]
            if reporting:
                self.progress(reporting * done / len(self.holders))

    def accuracy(self, model: Predictor | SeparateModels) -> float:
        """Share of the watched samples that ``model`` gets right; NaN if none are watched.

        For separate models it is their mean: what a client chosen at random can expect.
        """
        if self.watched is None:
            return float("nan")
        features, labels = self.watched
        members = model.members if isinstance(model, SeparateModels) else [model]
        return fmean(float(accuracy_score(labels, predict(member, features))) for member in members)


@dataclass(frozen=True)
class Point:
    """The model's accuracy after some rounds, and the bytes it cost a client to hold it."""

    rounds: int
    accuracy: float
    bytes_per_client: float


@dataclass(frozen=True)
class Result:
    """The model that a method learned from a task, and what it cost.

    Attributes
    ----------
    model : an object with ``decision_function(features)``: scores, (samples, class_count)
    content : the model's bytes; equal bytes are one model
    bytes_up, bytes_down : what a client sends and receives until it holds the final model, over
        all rounds, mean over the clients: every file and message, with the encoder and the
        final model
    rounds : exchanges with every client
    curve : accuracy on the way; `Method` adds the last point if there is none
    facts : further figures of this method
    seconds : work of all clients and the server, one after the other; `Method` measures it

    Examples
    --------
    >>> from safle_lab.baselines import method_named
    >>> features = np.array([[0.0], [0.2], [0.8], [1.0]], np.float32)
    >>> parts = [np.array([0, 2]), np.array([1, 3])]
    >>> result = method_named("afl")(Task(features, np.array([0, 0, 1, 1]), parts, class_count=2))
    >>> result.rounds
    1
    """

    model: Predictor | SeparateModels
    content: bytes = field(repr=False)
    bytes_up: float
    bytes_down: float
    rounds: int = 1
    curve: tuple[Point, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def bytes_per_client(self) -> float:
        """What a client sends and receives in all, mean over the clients."""
        return self.bytes_up + self.bytes_down

    @property
    def digest(self) -> str:
        """SHA-256 of the model's bytes."""
        return hashlib.sha256(self.content).hexdigest()


class MethodError(SafleError):
    """A method from outside cannot be run, or returns no `Result`."""


@contextmanager
def naming_errors(path: Path | None) -> Iterator[None]:
    """An error of a method from outside names the method's file, the line and the exception."""
    try:
        yield
    except SafleError:
        raise
    except Exception as error:
        if path is None:
            raise
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
        line = error.lineno if isinstance(error, SyntaxError) else (inside or [None])[-1]
        where = f"{path}, line {line}" if line else str(path)
        raise MethodError(f"{where}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Method(Generic[S]):
    """A method by name.

    Attributes
    ----------
    title : as tables show it
    run : the function ``(task, settings) -> Result``
    defaults : every setting of the method, with its default
    grid : candidate values of the settings that are tuned on held-out training data
    tuned_like : name of a method whose tuned settings this one starts from
    invariant : whether the model is the same for every partition of the samples
    needs_texts : whether it needs texts that describe the classes
    program, path : SHA-256 and path of the file that defines it; empty for safle-lab's own

    Examples
    --------
    >>> from safle_lab.baselines import METHODS
    >>> [name for name, method in METHODS.items() if method.needs_texts]
    ['tofa']
    """

    name: str
    title: str
    kind: Kind
    run: Callable[[Task, S], Result]
    defaults: S
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tuned_like: str = ""
    invariant: bool = False
    needs_texts: bool = False
    program: str = ""
    path: Path | None = None

    def settings(self, given: Mapping[str, Any]) -> S:
        """The defaults, replaced where ``given`` has others; an unknown name is an error."""
        merged = {**structs.asdict(self.defaults), **given}
        return as_settings(type(self.defaults), merged, where=f"{self.name}: ")

    def __call__(self, task: Task, **given: Any) -> Result:
        settings = self.settings(given)
        watch = Stopwatch()
        with naming_errors(self.path):
            returned: object = self.run(replace(task, watch=watch), settings)
        if not isinstance(returned, Result):
            kind = type(returned).__name__
            raise MethodError(f"{self.path}: its method gives {kind}; expected a Result")
        result = replace(returned, seconds=watch.seconds)
        if task.watched is None or result.curve:
            return result
        with naming_errors(self.path):
            accuracy = task.accuracy(result.model)
        point = Point(result.rounds, accuracy, result.bytes_per_client)
        return replace(result, curve=(point,))


@dataclass(frozen=True)
class LinearModel:
    """``argmax x W + b``."""

    weights: NDArray[np.float64]
    intercept: NDArray[np.float64] | float = 0.0

    def decision_function(self, features: Features) -> NDArray[Any]:
        """Scores, (samples, class_count)."""
        scores: NDArray[Any] = features @ self.weights + self.intercept
        return scores


def message(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as they would be sent: a safetensors file."""
    return to_safetensors({name: np.ascontiguousarray(a) for name, a in arrays.items()})


def one_hot(labels: Labels, class_count: int) -> NDArray[np.float64]:
    """A row of zeros and a one for each label, float64, (samples, class_count)."""
    return np.eye(class_count)[labels]
