"""Chooses where networks run: on the processor, or on a graphics card that the installed runtimes report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import NamedTuple

import numpy as np

from mien.encoding.network import CUDA_PROVIDER, Device, Network
from mien.errors import DeviceError, WeightsError, shown

DEVICES = ("auto", "cpu", "cuda")  # to ask for


class RuntimeReport(NamedTuple):
    """What an installed runtime says of graphics cards."""

    installed: str
    has_card: bool
    advice: str  # what brings it to use one


def chosen_device(asked: str, *runtimes: Callable[[], RuntimeReport]) -> Device:
    """`auto` takes a card where all runtimes report one; `cuda` without one is refused."""
    if asked not in DEVICES:
        raise DeviceError(f"no device {shown(asked)}: give one of {', '.join(DEVICES)}")
    if asked == "cpu":
        return "cpu"  # and no runtime is asked
    without = [report for report in (runtime() for runtime in runtimes) if not report.has_card]
    if asked == "auto" and without:
        return "cpu"
    if without:
        found = "; ".join(f"installed is {report.installed}: {report.advice}" for report in without)
        raise DeviceError(f"no graphics card can be used: {found}; or leave --device cuda out")
    return "cuda"


def onnxruntime_report() -> RuntimeReport:
    """What ONNX Runtime reports. Its GPU build names CUDA on any machine, so a network is tried there."""
    import onnxruntime  # noqa: PLC0415 heavy

    known = onnxruntime.get_available_providers()
    installed = f"onnxruntime {onnxruntime.__version__} for {', '.join(known)}"
    if CUDA_PROVIDER not in known:
        advice = "pip uninstall onnxruntime, then pip install 'onnxruntime-gpu[cuda,cudnn]'"
        return RuntimeReport(installed, has_card=False, advice=advice)
    advice = "its CUDA does not start, so look after the card's driver, CUDA and cuDNN"
    return RuntimeReport(installed, has_card=_cuda_starts(), advice=advice)


def torch_report() -> RuntimeReport:
    """What PyTorch reports."""
    import torch  # noqa: PLC0415 an extra, and heavy

    advice = "install the build of this version for your CUDA"
    return RuntimeReport(f"torch {torch.__version__}", has_card=torch.cuda.is_available(), advice=advice)


@cache
def _cuda_starts() -> bool:
    import onnxruntime  # noqa: PLC0415 heavy
    from onnx import TensorProto, helper  # noqa: PLC0415

    if hasattr(onnxruntime, "preload_dlls"):
        with redirect_stdout(StringIO()):  # it prints what is missing
            onnxruntime.preload_dlls()  # CUDA and cuDNN that pip installed
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in ("given", "result"))
    graph = helper.make_graph([helper.make_node("Relu", ["given"], ["result"])], "trial", [given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        network = Network(model.SerializeToString(), "a trial", [1], device="cuda")
        network.run(np.ones((1, 1), dtype=np.float32))
    except WeightsError:
        return False
    return network.device == "cuda"
