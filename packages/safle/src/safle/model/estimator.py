"""The pipeline for scikit-learn: features and labels -> statistics -> a classifier.

``fit`` calibrates an encoder, counts and solves; ``partial_fit`` counts more samples. Its
`statistics_` are the exact sum of everything counted: two hospitals add theirs, and
`SafleClassifier.from_statistics` gives the classifier of the pooled data.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from safle.basics.settings import describe
from safle.basics.texts import require_type
from safle.encoders.base import Encoder
from safle.encoders.calibration import of_schema, public_sample
from safle.encoders.registry import default_kind, kind_named, make_encoder, setting_names
from safle.errors import InvalidInput, SafleWarning, SettingsError
from safle.model.batches import (
    AUTO,
    allows_gaps,
    check_batch,
    check_features,
    class_names,
)
from safle.model.model import Model
from safle.solver.heads import Priors
from safle.solver.solution import Solution
from safle.solver.solving import Criterion, solve
from safle.statistics.accumulator import Accumulator
from safle.statistics.statistics import Statistics
from safle.tables.checks import as_features
from safle.tables.schema import Schema


class SafleClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that is an exact function of summed integer counts.

    Parameters
    ----------
    encoder : an `Encoder`, or the kind that `fit` calibrates from X, one of
        `safle.encoders.kinds`: "products", "random-features", "embedding" (the paper's), "linear"
        or "table" (text and gaps). "auto" is "table" where X has text or gaps or there is a schema,
        else "products" from 128 features and 250 samples on, else "random-features". Members of a
        federation must be given the same `Encoder`: their own quantiles differ.
    schema : what the columns of a frame are; without one, `safle.tables.draft_schema` drafts it
        where a frame holds text
    ridge : a positive number; 0 = minimum norm; "auto" = chosen by ``criterion``
    head : "auto", or a name of `safle.solver.HEADS`; "quadratic" makes the calibrated encoder
        count by class, if its kind can
    criterion : "auto", "gcv" or "evidence"
    priors : None for classes as frequent as in the data, "uniform", or a number for each class
    allow_outside : count samples although more than a tenth of a feature's values lie outside what
        the given `Encoder` expects
    settings : those of the kind, each by its name, as for `safle.make_encoder`; None leaves one to
        the kind, and an `Encoder` has its own

    Attributes
    ----------
    classes_ : (class_count,), ascending, of the labels' own type
    encoder_ : Encoder
    statistics_ : Statistics, everything counted so far: what a client sends, and what adds up
    solution_ : Solution, with the ridge curve and the residual
    model_ : Model, to save or export
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from safle import SafleClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> SafleClassifier().fit(X[:1000], y[:1000]).predict(X[1000:1003])
    array([1, 4, 0])

    Tables with text and gaps are frames of pandas, polars or pyarrow, matched by name:

    >>> import polars
    >>> age, drug = [61, 43, None, 57] * 9, ["a", "b", "a", None] * 9
    >>> frame, outcome = polars.DataFrame({"age": age, "drug": drug}), ["ill", "well"] * 18
    >>> SafleClassifier(units=8).fit(frame, outcome).predict(frame[["drug", "age"]])[:2]
    array(['ill', 'well'], dtype='<U4')
    """

    __signature__: ClassVar[Signature]
    classes_: NDArray[Any]
    encoder_: Encoder
    _declared: list[Any] | None
    """The classes that partial_fit may be given; None for any."""

    def __init__(
        self,
        *,
        encoder: Encoder | str = AUTO,
        schema: Schema | None = None,
        ridge: float | Literal["auto"] = "auto",
        head: str = "auto",
        criterion: Criterion = "auto",
        priors: Priors | None = None,
        allow_outside: bool = False,
        **settings: Any,
    ) -> None:
        self.encoder = encoder
        self.schema = schema
        self.ridge = ridge
        self.head = head
        self.criterion = criterion
        self.priors = priors
        self.allow_outside = allow_outside
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` every setting of any kind, None where it is not set."""
        params: dict[str, Any] = super().get_params(deep)
        unset = dict.fromkeys(setting_names()) if deep else {}
        return params | unset | self._settings

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and settings by their own names; None leaves one to the kind."""
        named = {name: params.pop(name) for name in setting_names() if name in params}
        super().set_params(**params)
        self._settings = self._settings | named
        return self

    @classmethod
    def from_statistics(cls, encoder: Encoder, statistics: Statistics, **params: Any) -> Self:
        """A fitted classifier from statistics that were counted and summed anywhere.

        ``params`` are those of the constructor. `classes_` are int64 or str, as in the
        statistics. To keep a classifier, write its `statistics_` and its `encoder_`; to keep what
        predicts, save its `model_`.
        """
        require_type("encoder", encoder, Encoder)
        encoder.space.check_same(statistics.space)
        estimator = cls(encoder=encoder, **params)
        estimator.n_features_in_ = encoder.feature_dim
        estimator.encoder_ = encoder
        estimator._declared = None
        estimator.classes_ = np.array(statistics.class_names)
        estimator.statistics_ = statistics
        return estimator._solve_now()

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Calibrate (unless an `Encoder` is given), count and solve, from scratch.

        Parameters
        ----------
        X : finite numbers, (samples, feature_dim), or a frame, whose columns may hold text and gaps
        y : labels, (samples,): integers, strings, booleans or integral floats
        """
        features, labels, schema = check_batch(self, X, y, reset=True)
        self._start(features, labels, schema, None)
        return self._solve_now()

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add a batch to what was counted; solving waits until a result is asked for.

        With a given `Encoder` the result is exactly that of one `fit` of all batches, in
        any order. Without one, the first batch alone decides the thresholds: make it
        large and mixed. Solving costs far more than counting, so it happens once, at the
        next `predict` (or read of `model_`), not at every call.

        Parameters
        ----------
        X, y : as in `fit`
        classes : all labels that may ever occur; others are then refused. Without it
            `classes_` grows with the labels that come. A declared class without samples
            is never predicted: its score is -inf, its probability 0.
        """
        first = not self.__sklearn_is_fitted__()
        features, labels, schema = check_batch(self, X, y, reset=first)
        declared = None if classes is None else np.unique(np.asarray(classes))
        if first:
            self._start(features, labels, schema, declared)
            return self
        if declared is not None and not np.array_equal(declared, self.classes_):
            raise InvalidInput(
                f"classes={declared.tolist()}; earlier calls had {self.classes_.tolist()}, "
                "and classes can be declared at the first call only"
            )
        if "statistics_" in vars(self):
            self._counter = self._new_counter(self.encoder_, self._declared)
            self._counter.add(self.statistics_)
        self._counter.add_samples(features, labels)
        if self._declared is None:
            self.classes_ = np.union1d(self.classes_, labels)
        self._forget()
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores, (samples, class_count); with two classes their difference, (samples,)."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of the largest score, (samples,), of the type `fit` was given."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities, (samples, class_count); see `Model.predict_proba`."""
        scores = self._score_known_classes(X)
        return self._spread(self.model_.to_probabilities(scores), missing=0.0)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`, -inf where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @cached_property
    def statistics_(self) -> Statistics:
        check_is_fitted(self)
        with warnings.catch_warnings():
            if self._drafts:
                warnings.simplefilter("ignore", SafleWarning)
            return self._counter.snapshot()

    @cached_property
    def solution_(self) -> Solution:
        check_is_fitted(self)
        return solve(
            self.statistics_,
            ridge=self.ridge,
            head=self.head,
            criterion=self.criterion,
            priors=self.priors,
        )

    @cached_property
    def model_(self) -> Model:
        check_is_fitted(self)
        return Model.of(self.encoder_, self.solution_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = allows_gaps(self.encoder)
        return tags

    def _start(
        self,
        features: NDArray[Any],
        labels: NDArray[Any],
        schema: Schema | None,
        declared: NDArray[Any] | None,
    ) -> None:
        """Begin with a batch; earlier counts are forgotten, unless the batch is refused."""
        known = np.unique(labels) if declared is None else declared
        encoder = self._make_encoder(features, schema, len(known))
        names = None if declared is None else class_names(declared)
        counter = self._new_counter(encoder, names)
        counter.add_samples(features, labels)
        self.encoder_ = encoder
        self.classes_ = known
        self._counter = counter
        self._declared = names
        self._forget()

    def _new_counter(self, encoder: Encoder, classes: list[Any] | None) -> Accumulator:
        return Accumulator(encoder, classes=classes, allow_outside=self.allow_outside)

    def _solve_now(self) -> Self:
        # Errors in the data show now, not at the first prediction.
        _ = self.model_
        return self

    def _forget(self) -> None:
        for name in ("statistics_", "solution_", "model_"):
            self.__dict__.pop(name, None)

    def _make_encoder(self, features: NDArray[Any], schema: Schema | None, classes: int) -> Encoder:
        settings = {name: value for name, value in self._settings.items() if value is not None}
        if isinstance(self.encoder, Encoder):
            if settings:
                raise SettingsError(
                    f"{', '.join(settings)} beside an Encoder, which has its own settings; leave "
                    "them out"
                )
            as_features(features[:0], self.encoder.feature_dim)
            return self.encoder
        if schema is not None:
            calibration = of_schema(schema)
        else:
            names: list[str] = [*getattr(self, "feature_names_in_", ())]
            unique_names = names if len({*names}) == len(names) else ()
            calibration = public_sample(features, names=unique_names)
        kind = self.encoder
        if kind == AUTO:
            mixed = schema is not None or bool(np.isnan(features).any())
            kind = "table" if mixed else default_kind(calibration, settings)
        declared = describe(kind_named(kind).settings_type)
        if "by_class" in declared and self.head == "quadratic":
            settings.setdefault("by_class", True)
        return make_encoder(calibration, kind, class_count=classes, **settings)

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        return self._spread(self._score_known_classes(X), missing=-np.inf)

    def _score_known_classes(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores of the classes with samples; warns of values that the encoder does not expect."""
        model = self.model_
        checked = model.encoder.contract.check(check_features(self, X))
        outside = model.watch()
        outside.add(checked)
        if len(outside.too_many) or not self._drafts:
            outside.warn()
        return model.score_checked(checked)

    def _spread(self, columns: NDArray[np.float64], *, missing: float) -> NDArray[np.float64]:
        """Columns of the classes with samples as columns of `classes_`."""
        if columns.shape[1] == len(self.classes_):
            return columns
        spread = np.full((len(columns), len(self.classes_)), missing)
        spread[:, np.isin(class_names(self.classes_), self.model_.class_names)] = columns
        return spread

    @property
    def _drafts(self) -> bool:
        """Whether the schema is a draft of `fit`: a few values outside it are normal."""
        return self.schema is None and not isinstance(self.encoder, Encoder)


def _signature() -> Signature:
    """The constructor's parameters, with every setting by its name."""
    own = [*signature(SafleClassifier.__init__).parameters.values()][1:-1]
    named = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in setting_names()]
    return Signature([*own, *named])


# Behind ``**settings``, scikit-learn and `help` would not see the settings.
SafleClassifier.__signature__ = _signature()
