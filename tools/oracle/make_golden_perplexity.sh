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
# One sequence a batch, no flash attention. The demo model runs over the whole
# text, with the f16 cache that both programs have by default. The tiny models
# are there to compare closely, so their cache is f32: with an f16 one libllama
# also rounds queries and softmax weights.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$here/tests/golden/perplexity
program=$1/bin/llama-perplexity
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

run() { # model context chunks kv-type [flags]
  "$program" -m "$1" -f "$out/opticks.txt" -c "$2" -b "$2" --chunks "$3" \
    -ctk "$4" -ctv "$4" -fa off -t 2 "${@:5}" 2>&1
}

# Of the line that starts with (or contains) a label: its first number, and the
# one after +- or ±.
figure() { # label file
  grep -F "$1" "$2" | tail -1 |
    sed -n 's/.*[:=] *\([0-9.]*\) *\(+\/-\|±\) *\([0-9.]*\).*/\1 \3/p'
}

make_perplexity() { # name model context chunks kv-type
  run "${@:2}" >"$scratch/log"
  local value error
  read -r value error < <(figure "Final estimate: PPL" "$scratch/log")
  cat >"$out/$1.json" <<JSON
{
  "source": "$1",
  "context": $3,
  "chunks": $4,
  "kv_type": "$5",
  "perplexity": $value,
  "standard_error": $error
}
JSON
}

make_divergence() { # name model base context chunks kv-type
  run "$3" "${@:4}" --save-all-logits "$scratch/base" >"$scratch/log"
  run "$2" "${@:4}" --kl-divergence --kl-divergence-base "$scratch/base" \
    >"$scratch/log"
  local mean mean_error top top_error median
  read -r mean mean_error < <(figure "Mean    KLD:" "$scratch/log")
  read -r top top_error < <(figure "Same top p:" "$scratch/log")
  median=$(sed -n 's/^Median *KLD: *\([0-9.]*\).*/\1/p' "$scratch/log")
  cat >"$out/$1.json" <<JSON
{
  "source": "$1",
  "context": $4,
  "chunks": $5,
  "kv_type": "$6",
  "mean_kld": $mean,
  "mean_kld_error": $mean_error,
  "median_kld": $median,
  "same_top_percent": $top,
  "same_top_percent_error": $top_error
}
JSON
}

make_perplexity tiny-llama-F32 "$2/tiny-llama-F32.gguf" 200 4 f32
make_divergence tiny-llama-Q8_0-against-F32 \
  "$2/tiny-llama-Q8_0.gguf" "$2/tiny-llama-F32.gguf" 200 6 f32
make_perplexity smollm2 "$3" 512 23 f16
