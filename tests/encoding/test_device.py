from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import mien
from mien.encoding import network as networks
from mien.encoding.device import CUDA_PROVIDER, RuntimeReport, chosen_device, onnxruntime_report
from mien.errors import DeviceError

GPU_BUILD = ("TensorrtExecutionProvider", CUDA_PROVIDER, "CPUExecutionProvider")
CPU_BUILD = ("AzureExecutionProvider", "CPUExecutionProvider")


def onnxruntime_of(providers, *, starts=None):
    def report():
        with pytest.MonkeyPatch.context() as machine:
            machine.setattr(onnxruntime, "get_available_providers", lambda: providers)
            machine.setattr("mien.encoding.device._cuda_starts", lambda: starts)
            return onnxruntime_report()

    return report


def torch_with(*, has_card):
    return lambda: RuntimeReport("torch 2.13.0", has_card, "install the build for your CUDA")


@pytest.mark.parametrize(
    ("asked", "providers", "starts", "device"),
    [
        ("auto", GPU_BUILD, True, "cuda"),
        ("auto", GPU_BUILD, False, "cpu"),  # the build is there, but no card
        ("auto", CPU_BUILD, None, "cpu"),
        ("cuda", GPU_BUILD, True, "cuda"),
        ("cpu", GPU_BUILD, True, "cpu"),
    ],
)
def test_the_device_follows_what_the_runtime_reports(asked, providers, starts, device):
    assert chosen_device(asked, onnxruntime_of(providers, starts=starts)) == device


def test_a_card_that_is_not_there_is_refused_with_what_is_installed_and_what_to_install():
    with pytest.raises(DeviceError) as refused:
        chosen_device("cuda", onnxruntime_of(CPU_BUILD))
    message = str(refused.value)
    assert f"installed is onnxruntime {onnxruntime.__version__} for {', '.join(CPU_BUILD)}" in message
    assert "pip install 'onnxruntime-gpu[cuda,cudnn]'" in message
    with pytest.raises(DeviceError, match="its CUDA does not start"):
        chosen_device("cuda", onnxruntime_of(GPU_BUILD, starts=False))


def test_training_needs_a_card_in_both_runtimes():
    onnx = onnxruntime_of(GPU_BUILD, starts=True)
    assert chosen_device("auto", onnx, torch_with(has_card=True)) == "cuda"
    assert chosen_device("auto", onnx, torch_with(has_card=False)) == "cpu"
    with pytest.raises(DeviceError, match=r"installed is torch 2\.13\.0: install the build for your CUDA") as refused:
        chosen_device("cuda", onnx, torch_with(has_card=False))
    assert "onnxruntime" not in str(refused.value)


def test_a_processor_needs_no_report():
    def never():
        raise AssertionError

    assert chosen_device("cpu", never) == "cpu"


def test_an_unknown_device_is_refused_by_its_name(default_encoder, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(DeviceError, match="no device 'tpu': give one of auto, cpu, cuda"):
        mien.encode(tmp_path / "a.jpg", device="tpu")


def test_one_thread_at_a_time_feeds_a_card(monkeypatch, photo_encoder):
    """The networks of an encoder share the card's lock; those on the processor have none."""
    crops = [np.zeros((112, 112, 3), dtype=np.uint8)]
    with networks.CARD_LOCK:
        assert photo_encoder.embed(crops).shape == (1, 4, 128)
    [model] = photo_encoder.models
    taken = []

    class Watched:
        def __enter__(self):
            taken.append("card")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(model, "_lock", Watched())
    photo_encoder.embed(crops)
    assert taken == ["card"]
