"""Pictures for the tests of the photo pipeline: made, saved, and broken on purpose."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pillow_heif
from PIL import Image

from mien.simulation.photos import DrawnPerson

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
RAMP = np.linspace(0, 65535, 64 * 48).round().astype(np.uint16).reshape(48, 64)


def quarters(width=64, height=48):
    """(height, width, 3): four colours, so that every turn and every mirror shows."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = 220, 30, 40
    pixels[: height // 2, width // 2 :] = 20, 180, 60
    pixels[height // 2 :, : width // 2] = 30, 60, 200
    pixels[height // 2 :, width // 2 :] = 240, 230, 220
    return pixels


def two_portraits(seed=1):
    """(300, 600, 3): two drawn persons side by side, of which the detector is about equally sure."""
    rng = np.random.default_rng(seed)
    return np.concatenate([DrawnPerson.drawn(rng).photo(rng, 300) for _ in range(2)], axis=1)


def unsure_portrait(seed=1):
    """(300, 300, 3): so blurred that the detector hardly sees a face, but above the official threshold."""
    return cv2.GaussianBlur(two_portraits(seed)[:, :300], (0, 0), 14)


def noisy_crop(rng):
    """(112, 112, 3): as unlike any other as a crop can be."""
    return rng.integers(0, 256, (112, 112, 3), dtype=np.uint8)


def stored(upright, orientation):
    """What a camera held that way writes, after the EXIF table: which side are the first row and the first column?"""
    return {
        1: upright,  # top, left
        2: upright[:, ::-1],  # top, right
        3: upright[::-1, ::-1],  # bottom, right
        4: upright[::-1],  # bottom, left
        5: upright.swapaxes(0, 1),  # left, top
        6: upright[:, ::-1].swapaxes(0, 1),  # right, top
        7: upright[::-1, ::-1].swapaxes(0, 1),  # right, bottom
        8: upright[::-1].swapaxes(0, 1),  # left, bottom
    }[orientation]


def exif(orientation):
    notes = Image.Exif()
    notes[274] = orientation
    return notes.tobytes()


def saved(pixels, kind="PNG", **options):
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.ascontiguousarray(pixels))
    file = io.BytesIO()
    if kind == "JPEG":
        options = {"quality": 100, "subsampling": 0} | options
    if kind == "HEIF":
        pillow_heif.from_pillow(image).save(file, quality=-1, chroma=444, **options)
    else:
        image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colours, rows, *, before=(), after=()):
    """A PNG by hand, for what Pillow does not write: `rows` are the bytes of each row, the others are chunks."""
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    stream = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = [(b"IHDR", header), *before, (b"IDAT", stream), *after, (b"IEND", b"")]
    return PNG_MAGIC + b"".join(png_chunk(*chunk) for chunk in chunks)


def png_with_right_checksums(data):
    """A broken PNG whose checksums hold, so that what is broken reaches the decoder."""
    at, parts = 8, [data[:8]]
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        parts.append(png_chunk(data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(parts)


def sources(kind):
    """Small pictures of several modes."""
    photo = Image.fromarray(quarters())
    grey, see_through, palette = photo.convert("L"), photo.convert("RGBA"), photo.quantize(4)
    see_through.putalpha(100)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8))
    deep, inks, bits = Image.fromarray(RAMP), photo.convert("CMYK"), photo.convert("1")
    images = {
        "JPEG": [photo, grey, inks, noise],
        "PNG": [photo, grey, see_through, palette, deep, bits, noise],
        "WEBP": [photo, see_through, noise],
        "HEIF": [photo, grey, see_through, deep, noise],
    }[kind]
    options = {
        "JPEG": [
            {"exif": exif(6)},
            {"progressive": True, "subsampling": 2, "quality": 60},
            {"restart_marker_blocks": 3},
        ],
        "PNG": [{"exif": exif(6)}, {"optimize": True}],
        "WEBP": [{"lossless": True, "exif": exif(6)}, {"quality": 70}],
        "HEIF": [{}, {"tile_size": 32}],
    }[kind]
    made = [saved(image, kind, **option) for image in images for option in options]
    if kind == "JPEG":
        made.append(saved(photo, "MPO", save_all=True, append_images=[noise]))
    return made


def mutants(sources, rng, count):
    """Files of one format, each broken in one to four ways."""
    for _ in range(count):
        data = bytearray(sources[rng.integers(len(sources))])
        for _ in range(rng.integers(1, 5)):
            data = BREAKS[rng.integers(len(BREAKS))](data, sources, rng)
        data = bytes(data)
        yield png_with_right_checksums(data) if data.startswith(PNG_MAGIC) and rng.random() < 0.8 else data


def _place(data, rng):
    """Headers are short, and where the harm is done: half of the time, one of the first 400 bytes."""
    return int(rng.integers(max(min(len(data), 400 if rng.random() < 0.5 else len(data)), 1)))


def _flip(data, _, rng):
    for _ in range(rng.integers(1, 9)):
        at = _place(data, rng)
        data[at : at + 1] = bytes([rng.integers(256)])
    return data


def _lie(data, _, rng):
    """A number as a size, a count or an offset would have it."""
    number = int(rng.choice([0, 1, 2, 31, 32, 255, 256, 32767, 65535, 2**31 - 1, 2**32 - 1, int(rng.integers(2**32))]))
    width, at = int(rng.choice([1, 2, 4])), _place(data, rng)
    data[at : at + width] = (number % 256**width).to_bytes(width, "big" if rng.random() < 0.5 else "little")
    return data


def _cut(data, _, rng):
    return data[: rng.integers(len(data) + 1)]


def _insert(data, _, rng):
    at = _place(data, rng)
    data[at:at] = rng.bytes(int(rng.integers(1, 40)))
    return data


def _delete(data, _, rng):
    at = _place(data, rng)
    del data[at : at + int(rng.integers(1, 40))]
    return data


def _repeat(data, _, rng):
    """A stretch once more, up to 20 times: duplicate chunks, segments and boxes among them."""
    at = _place(data, rng)
    end = at + int(rng.integers(1, 200))
    data[end:end] = data[at:end] * int(rng.integers(1, 20))
    return data


def _splice(data, sources, rng):
    other = sources[rng.integers(len(sources))]
    return data[: _place(data, rng)] + other[_place(other, rng) :]


BREAKS = (_flip, _flip, _lie, _lie, _cut, _insert, _delete, _repeat, _splice)
