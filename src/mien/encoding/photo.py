"""Untrusted bytes -> upright RGB pixels.

This module reads the headers itself, and gives the decoders only the parts that describe pixels. So sizes are checked
before anything is decoded. Texts, colour profiles and previews never reach the decoders: they cannot be bombs, and
cannot make Pillow warn, which could not be caught thread-safely. The classes of Pillow's plugins are called directly,
so nothing is registered with Pillow.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO

import cv2
import numpy as np
import numpy.typing as npt
import pillow_heif
from PIL import Image, ImageChops
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from mien.encoding.process_memory import PixelsInWork
from mien.errors import InvalidPhotoError

Pixels = npt.NDArray[np.uint8]  # (height, width, 3): RGB, upright
Size = tuple[int, int]  # width, height
Stored = tuple[Image.Image, int]  # as stored, not yet upright, and its EXIF orientation
Opened = tuple[Size, Callable[[], Stored]]  # what the headers say; the call takes memory for all pixels

MOST_BYTES = 30_000_000
MOST_PIXELS = 50_000_000
IN_WORK = PixelsInWork(max(MOST_PIXELS, 12_500_000 * (os.cpu_count() or 1)))  # a photo takes up to 20 bytes per pixel
SMALLEST_SIDE = 32
MOST_SCANS = 50  # of a progressive JPEG: an empty one of 75 bytes costs as much time as a full one
MOST_PARTS = 65_536  # chunks or segments: a million empty ones take seconds

TEXT = rb"[\t\n\f\r -~\x80-\xff]*"
REFUSED = {  # by how it begins; the first that fits counts
    "a TIFF picture": rb"II[*+]\0|MM\0[*+]",  # or a camera's raw file; libtiff is the largest surface to attack
    "a GIF picture": rb"GIF8",
    "a BMP picture": rb"BM.{4}\0{4}",
    "a Photoshop file": rb"8BPS",
    "a JPEG XL picture": rb"\xff\x0a|\0{3}\x0cJXL ",
    "a JPEG 2000 picture": rb"\0{3}\x0cjP  ",
    "a DICOM file": rb".{128}DICM",
    "a PDF document, not a photo": rb"%PDF",
    "an archive or an office document, not a photo": rb"PK\x03\x04|\x1f\x8b",
    "an empty file": rb"\Z",
    "text (SVG), not a photo": TEXT + rb"<(?i:svg)" + TEXT + rb"\Z",
    "text, not a photo": TEXT + rb"\Z",
    "not a kind of picture that is known": rb"",
}
JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")  # neither a byte of a scan nor without a length
JPEG_END, JPEG_SCAN = 0xD9, 0xDA
JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
JPEG_NOTES = {*range(0xE1, 0xF0), 0xFE} - {0xEE}  # all but those of JFIF and Adobe, which tell what the colours mean
PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}
# where the size is, how many bits from width to height, how many bits each has, and what is to be added to both
WEBP_SIZES = {b"VP8X": (24, 24, 24, 1), b"VP8L": (21, 14, 14, 1), b"VP8 ": (26, 16, 14, 0)}
HEIF_SIZE = re.compile(rb"ispe\0{4}(.{4})(.{4})", re.DOTALL)
HEIF_DERIVED = re.compile(rb"infe[\2\3].{7}(?:..)?(grid|iovl)", re.DOTALL)
HEIF_ALPHA = re.compile(rb"auxid:1\0|auxiliary:alpha")
HEIF_STILL = {b"heic", b"heix", b"heim", b"heis", b"mif1"}
HEIF_MOVING = {b"hevc", b"hevx", b"hevm", b"hevs", b"msf1", b"avis"}
MIRRORS = {2: 1, 6: 1, 4: 0, 8: 0, 3: -1, 7: -1}  # by EXIF orientation, after the transposition: 1 is left to right
MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "RGBa", "CMYK"}  # what Pillow converts without clipping


def decode_photo(data: bytes) -> Pixels:
    """The upright RGB pixels of a JPEG, PNG, WebP or HEIC file, whatever its name; colour profiles are ignored.

    Raises:
        InvalidPhotoError: what was found instead, and what to do; the caller adds the file's name.
    """
    with decoded_photo(data) as pixels:
        return pixels


@contextmanager
def decoded_photo(data: bytes) -> Iterator[Pixels]:
    """The same, for a block that works on the pixels. It waits while other blocks have too many pixels in work."""
    check_bytes(len(data))
    with _refusals():
        (width, height), decode = _opened(data)
        _check_size(width, height)
    with IN_WORK.reserved(width * height):
        with _refusals():
            pixels = _decoded(decode)
        del decode  # it holds what the decoder made
        yield pixels


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns all that decoders raise into refusals."""
    try:
        yield
    except InvalidPhotoError:
        raise
    except MemoryError as error:
        raise InvalidPhotoError("it needs more memory than there is: make it smaller") from error
    except Exception as error:  # decoders raise many kinds
        raise InvalidPhotoError("it is damaged or cut off: take it from where it was first saved") from error


def _decoded(decode: Callable[[], Stored]) -> Pixels:
    image, orientation = decode()
    _check_size(*image.size)  # again: a file may state its size twice, differently
    image.load()
    return _pixels(image, orientation)


def check_bytes(count: int) -> None:
    """Raises InvalidPhotoError for a file that is too large; call it before the file is read."""
    _check_most(count, MOST_BYTES, "MB")


def _opened(data: bytes) -> Opened:
    """Opens a picture by its content, never by its name."""
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[4:8] == b"ftyp":
        return _heif(data)
    found = next(name for name, begins in REFUSED.items() if re.match(begins, data[:1024], re.DOTALL))
    raise InvalidPhotoError(f"it is {found}: save it as JPEG or PNG")


def _check_most(found: int, most: int, unit: str) -> None:
    if found > most:
        millions = -(-found // 100_000) / 10  # rounded up: 50,000,001 is not shown as 50.0
        raise InvalidPhotoError(f"{millions:.1f} {unit}: at most {most // 10**6} are read, make it smaller")


def _check_size(width: int, height: int) -> None:
    _check_most(width * height, MOST_PIXELS, "megapixels")
    if min(width, height) < SMALLEST_SIDE:
        raise InvalidPhotoError(f"{width} x {height} pixels: too small to show a face, send a larger photo")


def _unusual(kind: str) -> InvalidPhotoError:
    return InvalidPhotoError(f"it is an unusual kind of {kind}: save it as ordinary JPEG or PNG")


def _several(what: str) -> InvalidPhotoError:
    return InvalidPhotoError(f"it is {what}: save the one picture that is meant as JPEG or PNG")


def _orientation(exif: bytes) -> int:
    """From 1 to 8; 1, upright, where EXIF is missing or unreadable."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = "<" if tiff[:2] == b"II" else ">"
    with suppress(struct.error):
        (start,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for at in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", tiff, at)
            if tag == 274:
                return int(*struct.unpack_from(order + ("I" if kind == 4 else "H"), tiff, at + 8))
    return 1


def _jpeg(data: bytes) -> Opened:
    """The first picture of the file: phones append depth and gain maps."""
    kept, exif, scans = [b"\xff\xd8"], b"", 0
    for code, segment in _jpeg_segments(data):
        if code in JPEG_FRAMES:
            precision, height, width = struct.unpack_from(">BHH", segment, 4)
            _check_size(width, height)
            if code > 0xC2 or precision != 8:
                raise _unusual("JPEG (lossless, arithmetic, or not of 8 bits)")
        if code == 0xE1 and segment[4:10] == b"Exif\0\0":
            exif = exif or segment[4:]
        if code not in JPEG_NOTES:
            kept.append(segment)
        scans += code == JPEG_SCAN
        if scans > MOST_SCANS:
            raise _unusual(f"JPEG (more than {MOST_SCANS} scans)")
    image = JpegImageFile(BytesIO(b"".join(kept)))
    inverted = image.mode == "CMYK" and "adobe" not in image.info  # Pillow takes all inks for so, only Adobe's are
    return image.size, lambda: (ImageChops.invert(image) if inverted else image, _orientation(exif))


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The segments of the first picture. The segment of a scan includes its data."""
    code, end = 0, 2
    for _ in range(MOST_PARTS):
        found = JPEG_MARKER.search(data, end)
        if code == JPEG_END or not found:
            return
        start, end = found.span()
        code = data[start + 1]
        if code != JPEG_END:
            end += int.from_bytes(data[end : end + 2])
        if code == JPEG_SCAN:
            following = JPEG_MARKER.search(data, end)
            end = following.start() if following else len(data)
        yield code, data[start:end]
    raise _unusual(f"JPEG (more than {MOST_PARTS} segments)")


def _png(data: bytes) -> Opened:
    kept, exif, depth, colours, start = [data[:8]], b"", 0, 0, 8
    for _ in range(MOST_PARTS):
        length, name = struct.unpack_from(">I4s", data, start)
        end = start + 12 + length
        chunk, body, start = data[start:end], data[start + 8 : end - 4], end
        if name == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", body)
            _check_size(width, height)
        if name == b"tRNS" and colours != 3 and depth not in {1, 8}:
            raise _unusual(f"PNG (one transparent colour in {depth} bits)")  # Pillow compares it with scaled pixels
        if name == b"acTL":
            raise _several("an animated picture")
        if name == b"eXIf":
            exif = body
        if name in PNG_KEPT:
            kept.append(chunk)
            if zlib.crc32(name + body) != int.from_bytes(chunk[-4:]):
                raise ValueError("wrong checksum")  # which Pillow does not look at where the pixels are
        if name == b"IEND":
            break
    else:
        raise _unusual(f"PNG (more than {MOST_PARTS} chunks)")
    image = PngImageFile(BytesIO(b"".join(kept)))
    return image.size, lambda: (image, _orientation(exif))


def _webp(data: bytes) -> Opened:
    if data[12:16] == b"VP8X" and data[20] & 2:
        raise _several("an animated picture")
    start, apart, bits, extra = WEBP_SIZES[data[12:16]]
    sides = int.from_bytes(data[start : start + 6], "little")
    size = sides % 2**bits + extra, (sides >> apart) % 2**bits + extra

    def decode() -> Stored:
        image = WebPImageFile(BytesIO(data))
        return image, _orientation(image.info.get("exif", b""))

    return size, decode


def _heif(data: bytes) -> Opened:
    """Checks the declared sizes; the decoder checks coded sizes against these, and turns the picture itself.

    They may be larger than the picture, which may be cut out of one, or put together from many.
    """
    brands = {data[at : at + 4] for at in (8, *range(16, min(int.from_bytes(data[:4]), 256), 4))}
    if data[8:12] in HEIF_MOVING:
        raise _several("an animated picture")
    if b"avif" in brands:
        raise InvalidPhotoError("it is an AVIF picture: save it as JPEG or PNG")
    if not brands & HEIF_STILL:
        raise _several("a video, not a photo")
    for found in HEIF_SIZE.finditer(data):
        _check_most(int.from_bytes(found[1]) * int.from_bytes(found[2]), MOST_PIXELS, "megapixels")
    derived = HEIF_DERIVED.findall(data)
    if b"iovl" in derived or (b"grid" in derived and HEIF_ALPHA.search(data)):
        raise _unusual("HEIC (an overlay, or tiles with transparency)")
    file = pillow_heif.open_heif(data)
    _check_size(*file.size)
    if len(file) > 1:
        raise _several(f"a collection of {len(file)} pictures")
    tiles = file.info.get("tiling", {"num_columns": 1, "num_rows": 1, "tile_width": 1, "tile_height": 1})
    if tiles["num_columns"] * tiles["tile_width"] * tiles["num_rows"] * tiles["tile_height"] > 2 * MOST_PIXELS:
        raise _unusual("HEIC (tiles larger than the picture)")
    return file.size, lambda: (file.to_pillow(), 1)


def _pixels(image: Image.Image, orientation: int) -> Pixels:
    if image.mode == "I;16":  # the high byte, as Pillow does with 16-bit colours; its own conversion clips
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode not in MODES:
        raise _unusual(f"picture (mode {image.mode})")
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        image = Image.new("RGB", image.size, "white")
        image.paste(seen, mask=seen)
    elif image.mode != "RGB":
        image = image.convert("RGB")
    pixels: Pixels = np.asarray(image)
    if orientation in {5, 6, 7, 8}:
        pixels = cv2.transpose(pixels)
    if orientation in MIRRORS:
        pixels = cv2.flip(pixels, MIRRORS[orientation])
    return pixels
