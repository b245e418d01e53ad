"""Tells which extra of the package brings a module that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from mien.errors import MissingExtraError

# module: what people call it, and the extra that brings it
EXTRA_OF_MODULE = {
    "PIL": ("Pillow", "photos"),
    "cv2": ("OpenCV", "photos"),
    "onnx": ("ONNX", "photos"),
    "onnxruntime": ("ONNX Runtime", "photos"),
    "pillow_heif": ("pillow-heif", "photos"),
    "fastapi": ("FastAPI", "service"),
    "httptools": ("httptools", "service"),
    "prometheus_client": ("prometheus-client", "service"),
    "python_multipart": ("python-multipart", "service"),
    "starlette": ("Starlette", "service"),
    "uvicorn": ("uvicorn", "service"),
    "jinja2": ("Jinja", "study"),  # `service` brings it, too, and misses FastAPI first
    "matplotlib": ("matplotlib", "study"),
    "scipy": ("SciPy", "study"),
    "sklearn": ("scikit-learn", "study"),
    "threadpoolctl": ("threadpoolctl", "study"),
    "cryptography": ("cryptography", "cluster"),
    "dask": ("Dask", "cluster"),
    "distributed": ("Dask", "cluster"),
    "torch": ("PyTorch", "train"),
    "pandas": ("pandas", "bench"),
}


@contextmanager
def naming_the_missing_extra(user: str) -> Iterator[None]:
    """Turns the error of a module that is not installed into a line that says what to install.

    Any other error of an import stays as it is: one inside of an installed package is not mended by an extra.

    >>> with naming_the_missing_extra("mien serve"):
    ...     raise ModuleNotFoundError("No module named 'fastapi.missing'", name="fastapi.missing")
    Traceback (most recent call last):
    ModuleNotFoundError: No module named 'fastapi.missing'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(user, error) from error


def missing_extra(user: str, error: ModuleNotFoundError) -> MissingExtraError:
    """The error that names the extra which brings a missing module; where none does, raises the first error again."""
    called, extra = EXTRA_OF_MODULE.get(error.name or "", ("", ""))
    if not extra or find_spec(error.name or "") is not None:
        raise error
    return MissingExtraError(f"{user} needs {called}: pip install 'mien[{extra}]'")
