"""A model as a torch module: `nn.EmbeddingBag` sums the experts' rows.

Every encoder kind has a function (encoder, weights) -> module that maps float64 features,
(samples, feature_dim), to its share of the scores, float64, (samples, class_count). The
whole is the sum of the shares and the intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from safle.encoders import (
    EmbeddingEncoder,
    Encoder,
    HybridEncoder,
    LinearEncoder,
    RandomFeatureEncoder,
)
from safle.encoders.codes import DENSE_LIMIT
from safle.encoders.kernels.encode import LEVEL
from safle.model import Model
from safle.model.export.plan import Digits, Weights, exporter_of, intervals


class Scores(nn.Module):
    """Features -> scores; ``class_names`` gives their order."""

    def __init__(self, share: nn.Module, model: Model) -> None:
        super().__init__()
        self.share = share
        self.class_names = model.class_names
        self.register_buffer("intercept", _tensor(model.intercept, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        # float64 holds every float32: comparisons with float64 thresholds are exact.
        return self.share(features.to(torch.float64)) + self.intercept


class BitDigits(nn.Module):
    """Digit i is ``low_i < x_f(i) <= high_i``; bool, (samples, G * experts)."""

    def __init__(self, encoder: EmbeddingEncoder, digits: Digits) -> None:
        super().__init__()
        low, high = intervals(encoder, digits)
        self.register_buffer("feature", _tensor(digits.feature, np.int64))
        self.register_buffer("low", _tensor(low, np.float64))
        self.register_buffer("high", _tensor(high, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        values = features.index_select(1, self.feature)
        return (values > self.low) & (values <= self.high)


class LevelDigits(nn.Module):
    """Digit i is how many thresholds lie below x_f(i); int64, (samples, G * experts)."""

    def __init__(self, encoder: EmbeddingEncoder, digits: Digits) -> None:
        super().__init__()
        self.register_buffer("feature", _tensor(digits.feature, np.int64))
        self.register_buffer("thresholds", _tensor(encoder.thresholds.T, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        levels = torch.searchsorted(self.thresholds, features.t().contiguous())
        return levels.t().index_select(1, self.feature)


class TableShare(nn.Module):
    """``sum_j W_j[idx_j]`` with ``idx_j = sum_i digit_ji k^i``."""

    def __init__(self, encoder: EmbeddingEncoder, weights: Weights) -> None:
        super().__init__()
        digits = Digits.of(encoder)
        made = LevelDigits if encoder.bucketing.rule == LEVEL else BitDigits
        self.digits = made(encoder, digits)
        self.register_buffer("places", _tensor(digits.places, np.int64))
        self.register_buffer("bases", _tensor(encoder.layout.bases[:-1], np.int64))
        tables = _tensor(weights.tables, np.float64)
        self.tables = nn.EmbeddingBag.from_pretrained(tables, mode="sum")

    def forward(self, features: Tensor) -> Tensor:
        digits = self.digits(features).unflatten(1, self.places.shape)
        return self.tables((digits * self.places).sum(1) + self.bases)


class FixedPoint(nn.Module):
    """``code_f = round(2^b (t(x_f) - mean_f) / deviation_f)``, float64."""

    def __init__(self, encoder: LinearEncoder) -> None:
        super().__init__()
        self.scale = float(1 << encoder.fraction_bits)
        self.limit = float(DENSE_LIMIT)
        self.root = encoder.transform == "square-root"
        self.register_buffer("mean", _tensor(encoder.mean, np.float64))
        self.register_buffer("deviation", _tensor(encoder.deviation, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        if self.root:
            features = features.abs().sqrt() * features.sign()
        values = (features - self.mean) / self.deviation
        return (values * self.scale).round().clamp(-self.limit, self.limit)


class LinearShare(nn.Module):
    """``code W`` of the fixed-point features and a constant."""

    def __init__(self, encoder: LinearEncoder, weights: Weights) -> None:
        super().__init__()
        self.fixed_point = FixedPoint(encoder)
        self.register_buffer("weights", _tensor(weights.dense, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        codes = self.fixed_point(features)
        return nn.functional.pad(codes, (0, 1), value=self.fixed_point.scale) @ self.weights


class RandomShare(nn.Module):
    """``code W`` with ``code_j = min(most, floor(max(0, sum_f s_fj c_f) / 2^shift + 1/2))``."""

    def __init__(self, encoder: RandomFeatureEncoder, weights: Weights) -> None:
        super().__init__()
        self.fixed_point = FixedPoint(encoder.linear)
        self.step = float(1 << encoder.shift)
        self.most, self.scale = float((1 << encoder.bits) - 1), float(encoder.scale)
        self.register_buffer("signs", _tensor(encoder.signs, np.float32))
        self.register_buffer("weights", _tensor(weights.dense, np.float64))

    def forward(self, features: Tensor) -> Tensor:
        # Integers below 2**24: float32 products are exact.
        sums = (self.fixed_point(features).to(torch.float32) @ self.signs).to(torch.float64)
        codes = (sums / self.step + 0.5).floor().clamp(0.0, self.most)
        return nn.functional.pad(codes, (0, 1), value=self.scale) @ self.weights


class SumOfShares(nn.Module):
    """Several encoders side by side."""

    def __init__(self, encoder: HybridEncoder, weights: Weights) -> None:
        super().__init__()
        own = weights.split([part.layout for part in encoder.parts])
        shares = [_share(part, each) for part, each in zip(encoder.parts, own, strict=True)]
        self.first = shares[0]
        self.others = nn.ModuleList(shares[1:])

    def forward(self, features: Tensor) -> Tensor:
        total = self.first(features)
        for share in self.others:
            total = total + share(features)
        return total


EXPORTERS: dict[str, Callable[[Any, Weights], nn.Module]] = {
    EmbeddingEncoder.kind: TableShare,
    LinearEncoder.kind: LinearShare,
    RandomFeatureEncoder.kind: RandomShare,
    HybridEncoder.kind: SumOfShares,
}


def _share(encoder: Encoder, weights: Weights) -> nn.Module:
    return exporter_of(encoder, EXPORTERS, target="torch")(encoder, weights)


def build(model: Model) -> nn.Module:
    """The module of a model, frozen, in evaluation mode."""
    return Scores(_share(model.encoder, Weights.of(model)), model).eval()


def trace(
    module: nn.Module, feature_dim: int, file: IO[bytes], extra_files: dict[str, str]
) -> None:
    """Write ``module`` as a ``.pt2`` program for any number of float32 samples."""
    # Two samples, because torch takes sizes 0 and 1 of an example for constants.
    example = torch.zeros((2, feature_dim), dtype=torch.float32)
    batch = torch.export.Dim("batch", min=0)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    # The example would be the file's only pickle, and traces name this machine's folders.
    program.example_inputs = None
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, file, extra_files=extra_files)


def _tensor(array: NDArray[Any], dtype: Any) -> Tensor:
    # A copy: a module may be changed, the encoder and the model may not.
    return torch.from_numpy(np.array(array, dtype, order="C"))
