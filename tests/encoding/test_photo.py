from __future__ import annotations

import io
import re
import resource
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pillow_heif
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image, ImageFile

from mien.encoding import photo
from mien.encoding.photo import MOST_BYTES, MOST_PIXELS, check_bytes, decode_photo
from mien.errors import InvalidPhotoError

from pictures import RAMP, exif, mutants, png, png_chunk, png_with_right_checksums, quarters, saved, sources, stored

UPRIGHT = quarters()
PHOTO = Image.fromarray(UPRIGHT)
GREY = np.asarray(PHOTO.convert("L"))
GREY_RGB = np.repeat(GREY[..., None], 3, axis=2)
CLOSE = {"JPEG": 3, "HEIF": 4, "PNG": 0, "WEBP": 0}  # levels of 255
KINDS = sorted(CLOSE)


def save(pixels, kind, **options):
    return saved(pixels, kind, **({"lossless": True} if kind == "WEBP" else {}), **options)


def refused(data):
    """The one sentence that the person who took the photo gets to read."""
    with pytest.raises(InvalidPhotoError) as caught:
        decode_photo(data)
    sentence = str(caught.value)
    assert sentence.isascii()
    assert sentence.isprintable()
    assert ": " in sentence, "what was found, and what to do"
    return sentence


# what is read


@pytest.mark.parametrize("kind", KINDS)
def test_a_photo_comes_out_as_its_pixels(kind):
    pixels = decode_photo(save(PHOTO, kind))
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert_allclose(pixels.astype(int), UPRIGHT, atol=CLOSE[kind])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_taken_sideways_is_turned_upright(kind, orientation):
    pixels = decode_photo(save(stored(UPRIGHT, orientation), kind, exif=exif(orientation)))
    assert pixels.flags.c_contiguous
    assert_allclose(pixels.astype(int), UPRIGHT, atol=CLOSE[kind])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_heic_photo_is_not_turned_twice(orientation):
    """Phones write the turn as a property of the picture, and once more as a note."""
    data = saved(stored(UPRIGHT, orientation), "HEIF", exif=exif(orientation))
    assert exif(orientation) in data
    assert orientation == 1 or b"irot" in data or b"imir" in data
    assert_allclose(decode_photo(data).astype(int), UPRIGHT, atol=CLOSE["HEIF"])


def test_an_orientation_written_as_a_long_number_or_big_endian_counts():
    for order, kind, letter in ((">", 3, "H"), (">", 4, "I"), ("<", 4, "I")):
        value = struct.pack(order + letter, 6).ljust(4, b"\0")
        magic = b"MM\0*" if order == ">" else b"II*\0"
        note = magic + struct.pack(order + "IHHHI", 8, 1, 274, kind, 1) + value + bytes(4)
        assert_array_equal(decode_photo(saved(stored(UPRIGHT, 6), exif=b"Exif\0\0" + note)), UPRIGHT)


@pytest.mark.parametrize("note", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0" + b"\xff" * 90, exif(9)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_broken_exif_note_does_not_cost_the_photo(kind, note):
    assert_allclose(decode_photo(save(PHOTO, kind, exif=note)).astype(int), UPRIGHT, atol=CLOSE[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_grey_photo_becomes_three_equal_channels(kind):
    pixels = decode_photo(save(GREY, kind) if kind != "WEBP" else save(GREY_RGB, kind))
    assert_allclose(pixels.astype(int), GREY_RGB, atol=CLOSE[kind])


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "HEIF"])
def test_what_is_transparent_shows_white(kind):
    alpha = np.full(GREY.shape, 255, np.uint8)
    alpha[:24], alpha[24:, 32:] = 0, 128
    pixels = decode_photo(save(np.dstack([UPRIGHT, alpha]), kind)).astype(int)
    share = alpha[..., None] / 255
    assert_allclose(pixels, UPRIGHT * share + 255 * (1 - share), atol=CLOSE[kind] + 1)
    assert_array_equal(pixels[:20], 255)


@pytest.mark.parametrize("kind", ["PNG", "HEIF"])
def test_grey_with_transparency_shows_white_where_it_is_transparent(kind):
    alpha = np.full(GREY.shape, 255, np.uint8)
    alpha[:24] = 0
    pixels = decode_photo(save(np.dstack([GREY, alpha]), kind)).astype(int)
    assert_allclose(pixels, np.where(alpha[..., None] == 0, 255, GREY_RGB), atol=CLOSE[kind])


def test_a_palette_becomes_its_colours():
    palette = PHOTO.quantize(4)
    assert_array_equal(decode_photo(saved(palette)), np.asarray(palette.convert("RGB")))
    assert_allclose(decode_photo(saved(palette)).astype(int), UPRIGHT, atol=3)


@pytest.mark.parametrize("alphas", [b"\xff\x00", b"\xff\x00\x80"])
def test_a_transparent_colour_of_a_palette_shows_white(alphas):
    indexes = np.zeros((40, 40), np.uint8)
    indexes[:, 10:20], indexes[:, 20:] = 1, 2
    palette = (b"PLTE", bytes([10, 20, 30, 200, 0, 0, 0, 100, 200]))
    pixels = decode_photo(png(40, 40, 8, 3, map(bytes, indexes), before=[palette, (b"tRNS", alphas)]))
    assert_array_equal(pixels[0, 0], [10, 20, 30])
    assert_array_equal(pixels[0, 10], [255, 255, 255])
    assert_allclose(pixels[0, 20], [0, 100, 200] if len(alphas) == 2 else [127, 177, 227], atol=1)


def test_one_transparent_colour_without_a_palette_shows_white():
    rows = [bytes([30] * 20 + [90] * 20)] * 40
    pixels = decode_photo(png(40, 40, 8, 0, rows, before=[(b"tRNS", b"\0\x5a")]))
    assert_array_equal(pixels[0, [0, 39]], [[30] * 3, [255] * 3])
    assert "16 bits" in refused(png(40, 40, 16, 0, [bytes(80)] * 40, before=[(b"tRNS", b"\0\x5a")]))


def test_one_bit_is_black_and_white():
    bits = GREY > 100
    assert_array_equal(decode_photo(saved(Image.fromarray(bits))), np.where(bits, 255, 0)[..., None].repeat(3, 2))


def saved_deep_heic(values):
    file = io.BytesIO()
    pillow_heif.from_bytes("RGB;16", (64, 48), values.astype("<u2").tobytes()).save(file, quality=-1, chroma=444)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        png(64, 48, 16, 0, [row.astype(">u2").tobytes() for row in RAMP]),
        png(64, 48, 16, 2, [np.repeat(row, 3).astype(">u2").tobytes() for row in RAMP]),
        png(64, 48, 16, 4, [np.stack([row, row * 0 + 65535], 1).astype(">u2").tobytes() for row in RAMP]),
        saved(Image.fromarray(RAMP), "HEIF"),
        saved_deep_heic(RAMP.repeat(3)),
    ],
    ids=["png grey", "png colour", "png grey and alpha", "heic grey", "heic colour"],
)
def test_sixteen_bits_keep_their_shades(data):
    """Pillow's own conversion of grey shows everything above 255 of 65,535 as white."""
    pixels = decode_photo(data).astype(int)
    assert_allclose(pixels, (RAMP / 257)[..., None].repeat(3, 2), atol=1)
    assert_array_equal(pixels[[0, -1], [0, -1]], [[0] * 3, [255] * 3])


def test_sixteen_bit_transparency_shows_white():
    row = np.array([[52428, 0, 0, 65535]] * 20 + [[52428, 0, 0, 0]] * 20).astype(">u2").tobytes()
    assert_array_equal(decode_photo(png(40, 40, 16, 6, [row] * 40))[0, [0, 39]], [[204, 0, 0], [255] * 3])


# colours of print


INKS = np.array([[0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 0, 0], [0, 0, 255, 0], [0, 0, 0, 255], [128, 64, 0, 32]])


def printed(inks):
    """What paper shows: each ink takes its colour away, black takes all."""
    return (255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255


def inks_in_stripes():
    return INKS.repeat(8, axis=0)[None].repeat(40, axis=0).astype(np.uint8)


def jpeg_without_adobe_note(data):
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4]) :]


def test_adobe_writes_inks_inverted():
    inks = inks_in_stripes()
    data = saved(Image.fromarray(inks, "CMYK"), "JPEG")
    assert b"Adobe" in data
    assert_allclose(decode_photo(data).astype(int), printed(inks.astype(int)), atol=4)


def test_inks_without_the_note_of_adobe_are_not_inverted():
    inks = inks_in_stripes()
    data = jpeg_without_adobe_note(saved(Image.fromarray(255 - inks, "CMYK"), "JPEG"))
    assert_allclose(decode_photo(data).astype(int), printed(inks.astype(int)), atol=4)


def test_inks_written_as_brightness_and_colour_are_read():
    """YCCK: the same file with Adobe's transform set, so that its first three channels mean Y, Cb and Cr."""
    channels = np.full((40, 48, 4), [180, 100, 150, 230], np.uint8)
    data = bytearray(saved(Image.fromarray(255 - channels, "CMYK"), "JPEG"))  # Pillow writes inks inverted
    at = data.index(b"Adobe")
    assert data[at + 11] == 0
    data[at + 11] = 2
    y, cb, cr, black = 180, 100 - 128, 150 - 128, 230
    inverted = np.array([255 - (y + 1.402 * cr), 255 - (y - 0.344 * cb - 0.714 * cr), 255 - (y + 1.772 * cb), black])
    assert_allclose(decode_photo(bytes(data))[20, 24], printed(255 - inverted), atol=3)


# several pictures in one file


def animated(kind):
    return saved(PHOTO, kind, save_all=True, append_images=[Image.fromarray(UPRIGHT[::-1].copy())])


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_animations_are_refused(kind):
    assert refused(animated(kind)) == "it is an animated picture: save the one picture that is meant as JPEG or PNG"


def test_a_webp_animation_that_denies_it_is_refused():
    data = bytearray(animated("WEBP"))
    assert data[20] & 2
    data[20] &= ~2
    assert "damaged" in refused(bytes(data))


def test_an_animation_that_starts_after_the_picture_is_refused():
    late = png(40, 40, 8, 0, [bytes(40)] * 40, after=[(b"acTL", struct.pack(">II", 0, 0))])
    assert "animated" in refused(late)


def test_a_collection_in_heic_is_refused():
    file, several = io.BytesIO(), pillow_heif.from_pillow(PHOTO)
    several.add_from_pillow(Image.fromarray(UPRIGHT[::-1].copy()))
    several.save(file)
    assert "collection of 2 pictures" in refused(file.getvalue())


def test_a_heic_photo_may_carry_a_hidden_second_picture():
    """As phones write a gain map."""
    file, several = io.BytesIO(), pillow_heif.from_pillow(PHOTO)
    several.add_from_pillow(Image.new("RGB", (40, 40)))
    several.save(file, quality=-1, chroma=444)
    data = bytearray(file.getvalue())
    data[[found.start() for found in re.finditer(b"infe", data)][1] + 7] |= 1
    assert_allclose(decode_photo(bytes(data)).astype(int), UPRIGHT, atol=CLOSE["HEIF"])


def test_of_a_jpeg_with_depth_or_gain_maps_the_first_picture_counts():
    data = saved(PHOTO, "MPO", save_all=True, append_images=[Image.new("RGB", (200, 100))], quality=100, subsampling=0)
    assert b"MPF\0" in data
    assert_allclose(decode_photo(data).astype(int), UPRIGHT, atol=CLOSE["JPEG"])


def test_a_film_after_a_jpeg_is_ignored():
    data = save(PHOTO, "JPEG") + np.random.default_rng(1).bytes(200_000)
    assert_allclose(decode_photo(data).astype(int), UPRIGHT, atol=CLOSE["JPEG"])


# what is no photo


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "an empty file"),
        (b"a,b\n1,2\n", "text, not a photo"),
        (b"BMI,age\n21,7\n", "text, not a photo"),
        ("Gr\u00fc\u00dfe".encode(), "text, not a photo"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "text (SVG), not a photo"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
        (b"PK\x03\x04\x14\0", "an archive"),
        (b"\x1f\x8b\x08\0", "an archive"),
        (saved(PHOTO, "GIF"), "a GIF picture"),
        (saved(PHOTO, "BMP"), "a BMP picture"),
        (saved(PHOTO, "AVIF"), "an AVIF picture"),
        (saved(PHOTO, "JPEG2000"), "a JPEG 2000 picture"),
        (bytes(128) + b"DICM" + bytes(100), "a DICOM file"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + bytes(100), "a video"),
        (b"\0\0\0\x18ftyphevc\0\0\0\0hevcmsf1" + bytes(100), "an animated picture"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "not a kind of picture that is known"),
        (b"RIFF\x24\0\0\0WAVEfmt " + bytes(100), "not a kind of picture that is known"),
    ],
)
def test_what_is_no_photo_is_refused_by_its_content(data, what):
    sentence = refused(data)
    assert sentence.startswith(f"it is {what}")
    assert "as JPEG or PNG" in sentence


@pytest.mark.parametrize(
    "data",
    [
        saved(PHOTO, "TIFF"),
        saved(PHOTO, "TIFF", big_tiff=True),
        saved(PHOTO, "TIFF", save_all=True, append_images=[PHOTO]),
        saved(Image.fromarray(GREY.astype(">u2")), "TIFF"),
        b"MM\0+\0\x08\0\0" + bytes(100),
        b"II*\0\x10\0\0\0CR\2\0" + bytes(100),
    ],
    ids=["one page", "BigTIFF", "two pages", "big endian", "big-endian BigTIFF", "raw of a camera"],
)
def test_tiff_is_refused_by_its_content(data):
    assert refused(data) == "it is a TIFF picture: save it as JPEG or PNG"


@pytest.mark.parametrize("precision", [b"\xff\xc1\0\x11\x0c", b"\xff\xc9\0\x11\x08"], ids=["12-bit", "arithmetic"])
def test_exotic_kinds_of_jpeg_are_refused_with_a_reason(precision):
    data = saved(PHOTO, "JPEG").replace(b"\xff\xc0\0\x11\x08", precision)
    assert re.match(r"it is an unusual kind of JPEG \(.+\): save it as ordinary JPEG or PNG", refused(data))


@pytest.mark.parametrize("mode", ["F", "I", "LAB", "La"])
def test_pixels_that_pillow_would_clip_are_refused(mode):
    """No decoder gives them today."""
    with pytest.raises(InvalidPhotoError, match=rf"unusual kind of picture \(mode {mode}\)"):
        photo._pixels(Image.new(mode, (40, 40)), 1)


# too large, too small


def nothing_may_be_decoded(monkeypatch):
    def decode(*_):
        pytest.fail("decoded before the size was checked")

    for owner, name in ((ImageFile.ImageFile, "load"), (pillow_heif.HeifFile, "to_pillow"), (Image.core, "new")):
        monkeypatch.setattr(owner, name, decode)


def png_of_zeros(width, height):
    squeeze = zlib.compressobj(9)
    row = bytes(1 + -(-width // 8))
    stream = b"".join(squeeze.compress(row) for _ in range(height)) + squeeze.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", stream) + png_chunk(b"IEND", b"")


def lying(kind):
    """Small files that claim to be huge."""
    if kind == "PNG":
        return png_of_zeros(30_000, 30_000)
    if kind == "WEBP":
        return b"RIFF\xff\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + struct.pack("<I", 29_999)[:3] * 2 + bytes(300)
    data = bytearray(save(PHOTO, kind))
    at = data.index(b"\xff\xc0") + 5 if kind == "JPEG" else data.index(b"ispe") + 8
    data[at : at + (4 if kind == "JPEG" else 8)] = struct.pack(">HH" if kind == "JPEG" else ">II", 30_000, 30_000)
    return bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_900_megapixels_are_refused_before_anything_is_decoded(kind, monkeypatch):
    data = lying(kind)
    assert len(data) < 110_000
    nothing_may_be_decoded(monkeypatch)
    assert refused(data) == "900.0 megapixels: at most 50 are read, make it smaller"


@pytest.mark.parametrize(("bits", "at"), [(b"VP8 ", 26), (b"VP8L", 21)])
def test_large_webp_without_an_extended_header_is_refused(bits, at, monkeypatch):
    data = bytearray(saved(PHOTO, "WEBP", lossless=bits == b"VP8L"))
    assert data[12:16] == bits
    data[at : at + 4] = struct.pack("<I", 9999 << (16 if bits == b"VP8 " else 14) | 9999)
    nothing_may_be_decoded(monkeypatch)
    assert refused(bytes(data)).startswith("100.0 megapixels")


def test_a_second_header_cannot_enlarge_the_picture(monkeypatch):
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    data = png(40, 40, 8, 0, [bytes(40)] * 40, before=[(b"IHDR", header)])
    nothing_may_be_decoded(monkeypatch)
    assert refused(data).startswith("900.0 megapixels")


def test_50_megapixels_are_read_and_one_row_more_is_not():
    assert MOST_PIXELS == 10_000 * 5_000
    assert decode_photo(png_of_zeros(10_000, 5_000)).shape == (5_000, 10_000, 3)
    assert refused(png_of_zeros(10_000, 5_001)).startswith("50.1 megapixels")


def test_more_than_30_megabytes_are_refused_unseen(monkeypatch):
    monkeypatch.setattr(photo, "_opened", lambda _: pytest.fail("looked at"))
    assert refused(bytes(MOST_BYTES + 1)) == "30.1 MB: at most 30 are read, make it smaller"


def test_a_size_can_be_checked_before_the_file_is_read():
    check_bytes(MOST_BYTES)
    with pytest.raises(InvalidPhotoError, match=r"^40000\.0 MB: at most 30 are read, make it smaller$"):
        check_bytes(40_000_000_000)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("size", [(31, 400), (400, 31), (1, 1)])
def test_a_picture_without_room_for_a_face_is_refused(kind, size):
    assert "too small to show a face" in refused(save(Image.new("RGB", size), kind))


def test_heic_too_small_is_refused():
    assert "too small to show a face" in refused(saved(quarters(30, 64), "HEIF"))


# bombs other than pixels


@pytest.mark.parametrize("name", [b"zTXt", b"iTXt", b"iCCP"])
def test_compressed_notes_are_never_unpacked(name, monkeypatch):
    bomb = zlib.compress(bytes(20_000_000), 9)
    body = {b"zTXt": b"a\0\0", b"iTXt": b"a\0\1\0\0\0", b"iCCP": b"a\0\0"}[name] + bomb
    data = png(64, 48, 8, 2, [row.tobytes() for row in UPRIGHT], before=[(name, body)], after=[(name, body)])
    monkeypatch.setattr("PIL.PngImagePlugin._safe_zlib_decompress", lambda _: pytest.fail("unpacked"))
    assert_array_equal(decode_photo(data), UPRIGHT)


def test_empty_scans_without_end_are_refused():
    data = saved(PHOTO, "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    assert "scans" in refused(data[:-2] + last * 60 + data[-2:])
    assert_allclose(decode_photo(data).astype(int), UPRIGHT, atol=CLOSE["JPEG"])


def test_chunks_and_segments_without_end_are_refused():
    assert "chunks" in refused(png(40, 40, 8, 0, [bytes(40)] * 40, before=[(b"IDAT", b"")] * 70_000))
    assert "segments" in refused(b"\xff\xd8" + b"\xff\xe5\0\2" * 100_000)


def test_a_heic_photo_in_tiles_is_read():
    data = saved(quarters(200, 100), "HEIF", tile_size=64)
    assert_allclose(decode_photo(data).astype(int), quarters(200, 100), atol=CLOSE["HEIF"])


def test_tiles_that_are_more_than_the_picture_are_not_decoded(monkeypatch):
    """Three tiles of 48 megapixels each, of which only a corner is shown."""
    data = saved(quarters(192, 64), "HEIF", tile_size=64)
    small, large = (b"ispe\0\0\0\0" + struct.pack(">II", *size) for size in ((64, 64), (8_000, 6_000)))
    assert data.count(small) == 1
    data = data.replace(small, large)
    nothing_may_be_decoded(monkeypatch)
    assert "tiles larger than the picture" in refused(data)


def test_tiles_with_transparency_and_overlays_are_refused(monkeypatch):
    data = saved(quarters(128, 64), "HEIF", tile_size=64)
    nothing_may_be_decoded(monkeypatch)
    assert "an overlay" in refused(data.replace(b"grid", b"iovl"))
    assert "transparency" in refused(data + b"\0\0\0\x28auxC\0\0\0\0urn:mpeg:hevc:2015:auxid:1\0")


# damaged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_a_photo_that_is_cut_off_is_refused(kind, share):
    noise = np.random.default_rng(3).integers(0, 256, (64, 64, 3), np.uint8)
    data = save(noise, kind)
    refused(data[: int(len(data) * share)])


def test_a_flipped_bit_in_a_png_is_found():
    data = bytearray(saved(PHOTO))
    data[data.index(b"IDAT") + 20] ^= 1
    assert "damaged" in refused(bytes(data))


def test_too_little_memory_is_said(monkeypatch):
    def load(_):
        raise MemoryError

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    assert refused(saved(PHOTO)) == "it needs more memory than there is: make it smaller"


@pytest.mark.parametrize("files", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_broken_is_decoded_or_refused_and_nothing_else(kind, files, monkeypatch):
    warned, sentences, decoded = [], set(), 0
    monkeypatch.setattr(warnings, "warn", lambda message, *_, **__: warned.append(message))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in mutants(sources(kind), np.random.default_rng(7), files):
        try:
            pixels = decode_photo(data)
        except InvalidPhotoError as error:
            sentences.add(str(error))
        else:
            decoded += 1
            assert pixels.dtype == np.uint8
            assert pixels.shape == (*pixels.shape[:2], 3)
            assert min(pixels.shape[:2]) >= 32
    assert not warned
    assert all(sentence.isascii() and sentence.isprintable() for sentence in sentences)
    assert decoded > files / 50, "mutants so broken that no decoder saw them prove nothing"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000  # kilobytes


def test_checksums_of_broken_pngs_are_put_right():
    data = saved(PHOTO)
    assert png_with_right_checksums(data) == data


def test_several_threads_do_not_disturb_each_other():
    files = [data for kind in KINDS for data in sources(kind)]
    alone = [decode_photo(data) for data in files]
    with ThreadPoolExecutor(8) as threads:
        for pixels, expected in zip(threads.map(decode_photo, files * 5), alone * 5, strict=True):
            assert_array_equal(pixels, expected)


def test_nothing_is_registered_with_pillow():
    assert "HEIF" not in Image.OPEN
