"""Where a network runs: on processors, or on a graphics card that ONNX Runtime really uses.

Where a card, its driver or one of CUDA's libraries is missing, ONNX Runtime silently takes the
processor. A session is therefore asked once it exists, and cannot change its place later.
"""

import contextlib
import importlib
import io
import re
import warnings
from pathlib import Path
from typing import Any

import onnx

from safle.basics import reason_of
from safle.errors import BackboneError, SafleWarning

CPU = "cpu"
CUDA = "CUDAExecutionProvider"
CARD_SETTINGS = {"use_tf32": "0", "cudnn_conv_algo_search": "DEFAULT"}
"""TF32 would cost three digits; a searched algorithm could differ from run to run."""
_EXTRAS = "'safle-images[cpu]', or 'safle-images[gpu]' for a graphics card of NVIDIA"


def open_session(
    path: Path, *, where: str, device: str = CPU, half: bool = False
) -> tuple[Any, str]:
    """A session of ONNX Runtime that runs a model, and its device: "cpu" or "gpu:N".

    Parameters
    ----------
    where : what the model is called, in messages
    device : "cpu"; "gpu" or "gpu:N", which fail where that card does not run; or "auto": the first
        card if it runs, else "cpu", with a warning where ONNX Runtime was built for cards
    half : compute with 16 bits instead of 32, which only a card does
    """
    if not re.fullmatch(r"auto|cpu|gpu(:\d{1,3})?", device):
        raise BackboneError(f"device {device!r}; expected auto, cpu, gpu, or gpu:1 for the second")
    runtime = _import_runtime()
    card = device if ":" in device else "gpu:0"
    reason = "cpu was chosen"
    if device != CPU:
        session, reason = _open_on_card(runtime, path, card, half)
        if session is not None:
            return session, card
    if half or device not in (CPU, "auto"):
        asked = "16 bits need a card, and " if half else ""
        raise BackboneError(
            f"{where}: {asked}{card} does not run ({reason}); leave --device and --half out, or "
            "uninstall onnxruntime and install 'safle-images[gpu]'"
        )
    if device == "auto" and CUDA in runtime.get_available_providers():
        warnings.warn(f"{card} does not run ({reason}): cpu is used", SafleWarning, stacklevel=2)
    try:
        return _create(runtime, str(path), "CPUExecutionProvider"), CPU
    except Exception as error:  # ONNX Runtime's errors have no common base class
        raise BackboneError(
            f"{where}: ONNX Runtime cannot load it ({reason_of(error)}); expected a complete ONNX "
            "file"
        ) from error


def _import_runtime() -> Any:
    """The module of ONNX Runtime, whichever of its two packages is installed."""
    try:
        runtime = importlib.import_module("onnxruntime")
        # The two packages share a folder: uninstalling one leaves an empty module.
        _ = runtime.InferenceSession
    except (ImportError, AttributeError) as error:
        raise BackboneError(
            f"backbones need ONNX Runtime, which is not installed ({reason_of(error)}); run: "
            f"pip install {_EXTRAS}"
        ) from error
    return runtime


def _open_on_card(runtime: Any, path: Path, card: str, half: bool) -> tuple[Any, str]:
    """A session on a card; or None, and why there is none."""
    if CUDA not in runtime.get_available_providers():
        return None, "this ONNX Runtime was built for processors alone"
    printed = io.StringIO()
    if hasattr(runtime, "preload_dlls"):
        # CUDA from packages is found so. It prints what it does not find.
        with contextlib.redirect_stdout(printed):
            runtime.preload_dlls()
    settings = CARD_SETTINGS | {"device_id": card.partition(":")[2]}
    try:
        session = _create(runtime, halve(path) if half else str(path), (CUDA, settings))
    except Exception as error:
        return None, reason_of(error)
    if CUDA in session.get_providers():
        return session, ""
    return None, printed.getvalue().partition("\n")[0] or "ONNX Runtime took the processor"


def _create(runtime: Any, model: str | bytes, provider: Any) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.use_deterministic_compute = True
    # A call that fails on a card would be repeated on the processor, and so would all later ones.
    return runtime.InferenceSession(model, options, providers=[provider], enable_fallback=0)


def halve(path: Path) -> bytes:
    """The model in a file with numbers of 16 bits inside; its input and output keep 32."""
    convert = importlib.import_module("onnxruntime.transformers.float16").convert_float_to_float16
    halved: bytes = convert(onnx.load(path), keep_io_types=True).SerializeToString()
    return halved
