#!/usr/bin/env bash
# ./dev bench: Baton against llama.cpp of the same pinned source, unpatched and
# built with its own best options (native, llamafile, repacking), interleaved
# in one run. Prints ratios; --json FILE writes the rows. --peer '[NAME=]PATH
# [flags]' adds a llama-bench of another engine, --only TEXT picks models.
#   ./dev bench kernels [flags]   matrix products and attention alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/heartbeat.sh
source cmake/heartbeat.sh
# shellcheck source=cmake/configure.sh
source cmake/configure.sh
configure release
if [ "${1:-}" = kernels ]; then
  with_heartbeat "building" ninja -C build/release baton-kernel-bench
  exec build/release/bin/baton-kernel-bench "${@:2}"
fi
cache=$(cmake/fetch.sh --print)
llama=$(cmake/fetch.sh --upstream)
peer=$cache/peer-$(basename "$llama")
if [ ! -x "$peer/bin/llama-quantize" ]; then
  with_heartbeat "configuring llama.cpp" quietly cmake -S "$llama" -B "$peer" \
    -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_BUILD_WEBUI=OFF
  with_heartbeat "building llama.cpp's programs (once)" \
    ninja -C "$peer" llama-bench llama-server llama-quantize
fi
with_heartbeat "building" ninja -C build/release baton baton-gateway \
  baton-worker baton-kvstore baton-engine-bench baton-tiny-model

demo=$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
models=("$demo")
mkdir -p "$cache/models/bench"
# make_once FILE COMMAND…: the command's last argument is the file to write.
make_once() {
  local file=$1
  shift
  models+=("$file")
  [ -f "$file" ] && return
  with_heartbeat "making $(basename "$file") (once)" quietly "$@" "$file.part"
  mv "$file.part" "$file"
}
requantised() { # source type file
  "$peer/bin/llama-quantize" --allow-requantize "$1" "$3" "$2"
}
for type in Q8_0 Q4_0; do
  make_once "$cache/models/bench/smollm2-$type.gguf" \
    requantised "$demo" "$type"
done
# 1.4 billion random weights: beyond every cache, in the types that the demo
# model's rows of 576 do not fit.
for type in Q4_K Q8_0; do
  make_once "$cache/models/bench/random1b-$type.gguf" \
    build/release/bin/baton-tiny-model --vocabulary-from "$demo" \
    --architecture qwen3 --type "$type" --seed 7 --layers 24 \
    --embedding 2048 --feed-forward 6144 --heads 16 --kv-heads 8 \
    --head-dim 128 --vocabulary 49152 --out
done
exec python3 tests/bench/compare.py --baton build/release/bin \
  --llama "$peer/bin" "${models[@]/#/--model=}" "$@"
