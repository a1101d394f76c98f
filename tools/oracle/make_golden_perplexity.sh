#!/usr/bin/env bash
# Makes tests/golden/perplexity/*.json with llama-perplexity of the pinned
# source, unpatched and with its own default options.
#
#   tools/oracle/make_golden_perplexity.sh LLAMA_BUILD TINY_MODELS_DIR DEMO_MODEL
#
# LLAMA_BUILD: a build of the folder that `cmake/fetch.sh --upstream` prints,
# target llama-perplexity (tools/README.md).
# TINY_MODELS_DIR: build/release/models, as the build makes them.
#
# One sequence a batch, no flash attention. The demo model runs with the f16
# cache that both programs have by default. The tiny model is there to compare
# closely, so its cache is f32: with an f16 one libllama also rounds queries and
# softmax weights.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$here/tests/golden/perplexity
program=$1/bin/llama-perplexity

make_golden() { # name model context chunks kv-type
  local estimate
  estimate=$("$program" -m "$2" -f "$out/opticks.txt" -c "$3" -b "$3" \
    --chunks "$4" -ctk "$5" -ctv "$5" -fa off -t 2 2>&1 |
    sed -n 's/.*Final estimate: PPL = \([0-9.]*\) +\/- \([0-9.]*\).*/\1 \2/p')
  [ -n "$estimate" ] || { echo "no estimate for $1" >&2; exit 1; }
  cat >"$out/$1.json" <<JSON
{
  "source": "$1",
  "context": $3,
  "chunks": $4,
  "kv_type": "$5",
  "perplexity": ${estimate% *},
  "standard_error": ${estimate#* }
}
JSON
}

make_golden smollm2 "$3" 512 8 f16
make_golden tiny-llama-F32 "$2/tiny-llama-F32.gguf" 200 4 f32
