"""Pictures as PNG, written with the standard library alone: a signature and three chunks, each with its checksum.

IHDR  width, height, 8 bits, grey or RGB
IDAT  zlib of the rows, each after a filter byte (0: as it is)
IEND
"""

import base64
import struct
import zlib
from typing import Any

import numpy as np


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    r"""The bytes of a PNG of uint8 pixels: (H, W) or (H, W, 1) grey, (H, W, 3) RGB.

    >>> png(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\x89PNG'
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    grey = pixels.ndim == 2
    if pixels.dtype != np.uint8 or not (grey or (pixels.ndim == 3 and pixels.shape[2] == 3)) or pixels.size == 0:
        raise ValueError(
            f"pixels: expected uint8 of shape (H, W) or (H, W, 3), found {pixels.dtype} {list(pixels.shape)};"
            " convert them"
        )
    height, width = pixels.shape[:2]
    rows = np.pad(np.ascontiguousarray(pixels).reshape(height, -1), ((0, 0), (1, 0)))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if grey else 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_address(kind: str, content: bytes) -> str:
    """Content as an address that needs no host.

    >>> data_address("text/plain", b"hello")
    'data:text/plain;base64,aGVsbG8='
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def shrunk(pixels: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """The picture with no side longer than `side`, by the means of n×n blocks.

    >>> shrunk(np.zeros((100, 50), dtype=np.uint8), 50).shape
    (50, 25)
    """
    step = -(-max(pixels.shape[:2]) // side)
    height, width = (length // step * step for length in pixels.shape[:2])
    if step <= 1 or not height or not width:  # small enough, or too thin for blocks
        return pixels[:: max(1, step), :: max(1, step)]
    blocks = pixels[:height, :width].reshape(height // step, step, width // step, step, *pixels.shape[2:])
    return np.asarray(blocks.mean(axis=(1, 3)).round(), dtype=np.uint8)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
