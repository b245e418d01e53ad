from __future__ import annotations

import subprocess
import sys
import threading
from io import BytesIO

import pytest
from PIL import Image

from mien import Cohort, Encodings, Gallery, Label
from mien.encoding.process_memory import PixelsInWork

from pictures import quarters, saved

ASK_AT_EXIT = """
import atexit, ctypes, resource
from mien.cli.main import main

PR_GET_DUMPABLE = 3

@atexit.register
def tell():
    print(ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE))

main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
@pytest.mark.parametrize("command", ["encode", "rank", "gallery", "serve"])
def test_a_process_that_holds_photos_is_never_dumped(command, tmp_path, photo_encoder, rng):
    photo, table = tmp_path / "photo.png", tmp_path / "table.csv"
    photo.write_bytes(saved(quarters(200, 200), "PNG"))  # without a face: the command ends with a refusal
    table.write_text("image_id,subject,label\nphoto.png,p,d\n")
    encoder = photo_encoder.encoder
    known = Encodings.of(["i"], rng.standard_normal((1, encoder.representations, encoder.dimensions)), encoder)
    Gallery.build(tmp_path / "gallery", Cohort.join(known, [Label("i", "p", "d")]))
    arguments = {
        "encode": ["encode", photo, "--out", tmp_path / "out.parquet"],
        "rank": ["rank", "--gallery", tmp_path / "gallery", photo],
        "gallery": ["gallery", "build", tmp_path / "new", "--photos", tmp_path, "--metadata", table],
        "serve": ["serve", "--gallery", tmp_path / "gallery", "--encoder", "no-such-encoder", "--port", "0"],
    }[command]
    given = [sys.executable, "-c", ASK_AT_EXIT, *map(str, arguments)]
    ended = subprocess.run(given, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines()[-1] == "0 0 0"


def test_photos_wait_until_there_is_room(rng):
    in_work, most, seen = PixelsInWork(100), [0], threading.Lock()
    now = [0]

    def work(pixels):
        with in_work.reserved(pixels):
            with seen:
                now[0] += pixels
                most[0] = max(most[0], now[0])
            threading.Event().wait(0.002)
            with seen:
                now[0] -= pixels

    threads = [threading.Thread(target=work, args=(int(pixels),)) for pixels in rng.integers(1, 101, size=40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (now[0], in_work.free) == (0, 100)
    assert 0 < most[0] <= 100


def test_room_is_given_back_after_an_error():
    in_work = PixelsInWork(10)
    with pytest.raises(ValueError, match="wrong"), in_work.reserved(10):
        raise ValueError("wrong")
    assert in_work.free == 10


MEMORY = """
import os, re, sys, threading
from pathlib import Path
os.cpu_count = lambda: 2  # more cores work on more photos
from mien.encoding.photo import decode_photo

def megabytes(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1000

picture, before = sys.stdin.buffer.read(), megabytes("VmRSS")
threads = [threading.Thread(target=decode_photo, args=(picture,)) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(megabytes("VmHWM") - before, megabytes("VmRSS") - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_photos_take_turns_and_their_memory_is_given_back():
    """Six of 42 megapixels, each of which takes 800 MB while it is decoded."""
    file = BytesIO()
    Image.effect_mandelbrot((6500, 6500), (-2, -1.5, 1, 1.5), 20).convert("RGB").save(file, "WEBP", quality=5, method=0)
    told = subprocess.run([sys.executable, "-c", MEMORY], input=file.getvalue(), capture_output=True, check=True)
    peak, after = map(int, told.stdout.split())
    assert peak < 1300
    assert after < 150
