"""Reads what ``torch.save`` wrote, without PyTorch: importing it takes two seconds and 200 MB.

The format is PyTorch's zip form (its default since version 1.6): ``NAME/data.pkl`` is a pickle in
which every storage is a persistent id ``("storage", type, key, location, size)``, and
``NAME/data/KEY`` are the bytes of one; see ``torch/serialization.py``. The pickle may name what
makes up a state dict and nothing else, so a hostile file runs no code.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 64 * 2**20  # of the file, and of every part of it when unpacked

_BYTE_ORDERS = {b"little": "<", b"big": ">"}


class InvalidTorchFileError(ValueError):
    """The file is not one of tensors in PyTorch's zip form; the message says why."""


class StoredTensor(NamedTuple):
    """Where a tensor is in its file: nothing of it is read before its shape is known to fit.

    Attributes:
        storage_type: PyTorch's name for the type of its elements, ``FloatStorage`` for float32.
        offset, strides: in elements.
    """

    storage_type: str
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TorchFile:
    """The content of a file, all in memory.

    Attributes:
        content: what was saved, with a :class:`StoredTensor` for each tensor.

    Raises:
        InvalidTorchFileError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(_read_all(path)))
            self._root = self._find_root()
            self._order = _BYTE_ORDERS[self._part("byteorder", b"little")]
            self.content = _Unpickler(io.BytesIO(self._part("data.pkl"))).load()
        except (InvalidTorchFileError, FileNotFoundError):
            raise
        except zipfile.BadZipFile as error:
            raise InvalidTorchFileError(f"it is damaged, or no zip archive ({error})") from error
        except Exception as error:  # a damaged or hostile pickle raises many types
            raise InvalidTorchFileError(str(error) or type(error).__name__) from error

    def floats(self, tensor: StoredTensor) -> NDArray[np.float32]:
        """Return a float32 tensor's values in separate memory.

        Raises:
            InvalidTorchFileError: they are not in the file.
        """
        try:
            stored: NDArray[np.float32] = np.ndarray(
                tensor.shape,
                np.dtype(self._order + "f4"),
                self._part(f"data/{tensor.key}"),
                4 * tensor.offset,
                tuple(4 * stride for stride in tensor.strides),
            )
        except Exception as error:  # NumPy checks the bounds; offset and strides may be anything
            raise InvalidTorchFileError(f"a tensor lies outside its storage: {error}") from error
        return stored.astype(np.float32, order="C")

    def _find_root(self) -> str:
        pickles = [each for each in self._zip.namelist() if each.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise InvalidTorchFileError("it is a zip archive, but not one that torch.save wrote")
        return pickles[0].removesuffix("data.pkl")

    def _part(self, name: str, default: bytes | None = None) -> bytes:
        if default is not None and self._root + name not in self._zip.NameToInfo:
            return default
        info = self._zip.getinfo(self._root + name)
        if info.file_size > MAX_BYTES:
            raise InvalidTorchFileError(f"{name} in it is larger than {MAX_BYTES >> 20} MiB")
        return self._zip.read(info)


def _read_all(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidTorchFileError(f"it is larger than {MAX_BYTES >> 20} MiB")
    return content


def _tensor(
    storage: tuple[str, str], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> StoredTensor:
    return StoredTensor(*storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: StoredTensor, *_: Any) -> StoredTensor:
    return tensor


_ALLOWED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name.endswith("Storage"):
            return name
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise InvalidTorchFileError(
                f"it names {module}.{name}, which is not part of a state dict of dense tensors"
            ) from None

    def persistent_load(self, pid: Any) -> tuple[str, str]:
        kind, storage_type, key, *_ = pid
        if kind != "storage" or not isinstance(storage_type, str):
            raise InvalidTorchFileError("it refers to something that is no tensor's storage")
        return storage_type, str(key)
