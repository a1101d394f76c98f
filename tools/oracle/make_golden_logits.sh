#!/usr/bin/env bash
# Makes tests/golden/logits/*.json with libllama of the pinned source.
#
#   tools/oracle/make_golden_logits.sh ORACLE_BUILD TINY_MODELS_DIR DEMO_MODEL
#
# ORACLE_BUILD: a build of tools/oracle (see its CMakeLists.txt).
# TINY_MODELS_DIR: build/release/models, as the build makes them.
#
# Quantised models: libllama rounds activations to 8 bits. A value near the
# border of two steps falls either way with the order of additions before it,
# which moves logits by some tenths, and the rows it leaves in the cache move
# those of later positions. Hence a lead that such a step cannot overturn, and
# many short sequences, so that most positions have no step before them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
oracle=$1/logits_oracle
out=$here/tests/golden/logits
mkdir -p "$out"
for model in "$2"/tiny-*.gguf; do
  name=$(basename "$model" .gguf)
  case $name in
    *-F32 | *-F16) shape="--sequences 1 --prompt 24 --positions 100" \
      lead=0.02 ;;
    *) shape="--sequences 10 --prompt 6 --positions 10" lead=0.5 ;;
  esac
  # shellcheck disable=SC2086
  "$oracle" "$model" $shape --lead $lead --seed 11 \
    --source "$name" >"$out/$name.json"
done
# "The" and "I" in the demo model's tokens. Its thirty layers leave hardly a
# position without such a step.
"$oracle" "$3" --positions 70 --lead 1 \
  --tokens 504 --tokens 57 \
  --source smollm2 >"$out/smollm2.json"
