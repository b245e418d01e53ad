#!/bin/sh
# Installs mien from this bundle into a new folder, without a network: sh install.sh FOLDER
# Every file is checked first, and pip checks each wheel again by the hash of the lock.
set -eu
if [ $# -ne 1 ] || [ -e "$1" ]; then
  echo "usage: sh install.sh FOLDER, and FOLDER must not exist: each version gets its own" >&2
  exit 2
fi
mkdir -p -- "$1"
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac # cd would take - for the last folder
folder=$(CDPATH= cd -- "$folder" && pwd)
trap 'rm -rf "$folder"' EXIT # nothing half installed is left
CDPATH= cd -- "$(dirname -- "$0")"
python=${PYTHON:-python3}
if ! sha256sum --quiet --check --strict SHA256SUMS; then
  echo "install.sh: the bundle is damaged or was changed: bring it here again" >&2
  exit 1
fi
if ! find . -type f ! -path ./SHA256SUMS | while read -r file; do
  cut -c 67- SHA256SUMS | grep -qxF -e "${file#./}" || { echo "$file"; exit 1; }
done >&2; then
  echo "install.sh: this file is not in SHA256SUMS: bring the bundle here again" >&2
  exit 1
fi
here=$("$python" -c "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())")
if [ "$here" != "$(cat PLATFORM)" ]; then
  echo "install.sh: this bundle is for $(cat PLATFORM), and $python is $here: set PYTHON to another one" >&2
  exit 1
fi
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels \
  --only-binary :all: --require-hashes --requirement requirements.txt
for package in weights/*.tar.gz; do
  [ ! -f "$package" ] || "$folder/bin/mien" weights get --package "$package"
done
trap - EXIT
echo "installed: $("$folder/bin/mien" --version) in $folder/bin"
