"""Networks as they are run: normalised images -> features, always in calls of one shape.

A matrix product may add up in another order when its shape changes. Every call therefore
has the same number of images, filled up with zeros, so that an image's features depend on
its pixels alone: not on the batch it came in, nor on the images beside it.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safle.errors import BackboneError

CPU_BATCH = 8
"""Larger batches leave the cache and are no faster."""
GPU_BATCH = 64
GPU = "CUDAExecutionProvider"
GPU_SETTINGS = {"use_tf32": "0", "cudnn_conv_algo_search": "DEFAULT"}
"""TF32 would cost three digits; a searched algorithm could differ from run to run."""
Floats = NDArray[np.float32]


class OnnxNetwork:
    """A network in ONNX Runtime, on one thread: callers bring their own.

    Two calls at a time on a thread each are faster than one call on two threads.

    Attributes
    ----------
    slots : images per call, no more and no fewer
    used : how many of them, from the first, may hold images
    output : the name of the features in the file
    """

    def __init__(self, model: Path, *, where: str, device: str = "cpu") -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.use_deterministic_compute = True
        on_gpu = device != "cpu" and GPU in onnxruntime.get_available_providers()
        if device == "gpu" and not on_gpu:
            raise BackboneError(
                "ONNX Runtime finds no GPU; leave --device out, or install onnxruntime-gpu in the "
                "place of onnxruntime"
            )
        providers = [(GPU, GPU_SETTINGS)] if on_gpu else ["CPUExecutionProvider"]
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=providers)
        except Exception as error:  # ONNX Runtime's errors share no base class
            raise BackboneError(
                f"{where}: ONNX Runtime cannot load it ({str(error)[:300]}); expected a whole "
                "ONNX file"
            ) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._where = where
        self._input = _image_input(inputs, where)
        names = [output.name for output in outputs]
        self.output = "features" if "features" in names else names[0]
        declared = inputs[0].shape[0]
        usual = GPU_BATCH if on_gpu else CPU_BATCH
        self.slots = self.used = declared if isinstance(declared, int) else usual

    @property
    def side(self) -> int | None:
        """Pixels of the input's sides, if the file says so."""
        declared = self._session.get_inputs()[0].shape[2]
        return declared if isinstance(declared, int) else None

    def __call__(self, images: Floats) -> Floats:
        """Features, (slots, feature_dim), of images, (slots, 3, side, side)."""
        try:
            (found,) = self._session.run([self.output], {self._input: images})
        except Exception as error:
            raise BackboneError(
                f"{self._where}: ONNX Runtime failed: {str(error)[:300]}"
            ) from error
        features = np.asarray(found)
        if features.ndim > 2 and features.size == features.shape[0] * features.shape[1]:
            features = features.reshape(features.shape[:2])
        if features.ndim != 2 or len(features) != len(images) or features.dtype.kind != "f":
            raise BackboneError(
                f"{self._where}: output {self.output!r} is {features.dtype} with shape "
                f"{features.shape}; expected one row of numbers per image: pool it in the file"
            )
        return features.astype(np.float32, copy=False)


def settle_slots(network: OnnxNetwork, side: int) -> int:
    """Find out whether a network treats every place in a call alike; its feature count.

    If it does not, only the first place is used, and an image's features are still its own.
    """
    noise = np.random.default_rng(0).standard_normal((3, side, side), np.float32)
    features = network(np.broadcast_to(noise, (network.slots, *noise.shape)).copy())
    alone = np.zeros((network.slots, *noise.shape), np.float32)
    alone[0] = noise
    if (features != network(alone)[:1]).any():
        network.used = 1
    return int(features.shape[1])


def _image_input(inputs: list[Any], where: str) -> str:
    """The name of the one input, if images fit it; sizes left open are names or None."""
    shape = inputs[0].shape if len(inputs) == 1 and inputs[0].type == "tensor(float)" else []
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        found = ", ".join(f"{node.name} {node.type} {node.shape}" for node in inputs)
        raise BackboneError(
            f"{where}: its inputs are {found or 'none'}; expected one float tensor "
            "(batch, 3, height, width)"
        )
    return str(inputs[0].name)
