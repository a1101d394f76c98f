#!/usr/bin/env bash
# ./dev bench: Baton against llama.cpp of the same pinned source, unpatched and
# built with its own best options (native, llamafile, repacking), interleaved
# in one run. Prints ratios; --json FILE writes the rows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=$(cmake/fetch.sh --print)
llama=$(cmake/fetch.sh --upstream)
peer=$cache/peer-$(basename "$llama")
# shellcheck source=cmake/heartbeat.sh
source cmake/heartbeat.sh
# shellcheck source=cmake/configure.sh
source cmake/configure.sh
if [ ! -x "$peer/bin/llama-server" ]; then
  with_heartbeat "configuring llama.cpp" quietly cmake -S "$llama" -B "$peer" \
    -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_BUILD_WEBUI=OFF
  with_heartbeat "building llama-bench and llama-server (once)" \
    ninja -C "$peer" llama-bench llama-server
fi
configure release
with_heartbeat "building" ninja -C build/release baton baton-gateway \
  baton-worker baton-kvstore baton-engine-bench
exec python3 tests/bench/compare.py --baton build/release/bin \
  --peer "$peer/bin" \
  --model "$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf" "$@"
