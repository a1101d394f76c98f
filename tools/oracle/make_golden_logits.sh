#!/usr/bin/env bash
# Makes tests/golden/logits/*.json with libllama of the pinned source.
#
#   tools/oracle/make_golden_logits.sh ORACLE_BUILD TINY_MODELS_DIR DEMO_MODEL
#
# ORACLE_BUILD: a build of tools/oracle (see its CMakeLists.txt).
# TINY_MODELS_DIR: build/release/models, as the build makes them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
oracle=$1/logits_oracle
out=$here/tests/golden/logits
mkdir -p "$out"
for model in "$2"/tiny-*.gguf; do
  name=$(basename "$model" .gguf)
  "$oracle" "$model" --prompt 24 --positions 100 --seed 11 \
    --source "$name" >"$out/$name.json"
done
# Two English sentences of tests/golden/tokenizer/smollm.jsonl in the
# demo model's tokens, then its own continuation.
"$oracle" "$3" --positions 120 \
  --tokens 504,2365,6354,16438,27003,690,260,23790,2767,30,57,416,982,2875,357,506,441,7121,43,502,3543,1137,392,3060,963,28,339,5248,2090,346,6737,3387,30 \
  --source smollm2 >"$out/smollm2.json"
