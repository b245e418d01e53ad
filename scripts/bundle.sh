#!/usr/bin/env bash
# Packs mien and all that mien[all] needs on this platform: bundle.sh OUT [FOLDER OF THE WEIGHTS' PACKAGES]
# Wheels are taken by requirements.lock, with their hashes; nothing that is not in it is packed, and nothing is built.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
weights=${2:+$(cd "$2" && pwd)}
python=$(realpath -s "${PYTHON:-python3}")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' src/mien/version.py)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/mien-$version-bundle
mkdir -p "$bundle/wheels"

"$python" -m pip wheel --quiet --no-deps --wheel-dir "$bundle/wheels" .
"$python" -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
  --requirement requirements.lock --dest "$bundle/wheels"
if [ -n "$weights" ]; then
  cp -r "$weights" "$bundle/weights"
fi
own=$(sha256sum "$bundle/wheels/mien-$version-py3-none-any.whl" | cut -d ' ' -f 1)
{
  cat requirements.lock
  echo "mien[all]==$version --hash=sha256:$own"
} >"$bundle/requirements.txt"
cp scripts/install.sh docs/install.md "$bundle"
"$python" -c "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())" >"$bundle/PLATFORM"
(cd "$bundle" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
chmod -R u=rwX,go=rX "$bundle"
tar --create --file "$out/$(basename "$bundle").tar" --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner \
  "$(basename "$bundle")"
cd "$out"
sha256sum "$(basename "$bundle").tar"
