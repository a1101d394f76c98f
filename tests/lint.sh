#!/usr/bin/env bash
# Format and static lint; changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t sources < <(git ls-files '*.h' '*.cc')
clang-format --dry-run --Werror "${sources[@]}"
mapfile -t scripts < <(git ls-files '*.sh' dev .ci/run)
shellcheck -x "${scripts[@]}"
mapfile -t yaml < <(git ls-files '*.yml' '*.yaml')
[ ${#yaml[@]} -eq 0 ] || yamllint -d relaxed "${yaml[@]}"
python3 tests/layering/check_layering.py .
echo "lint: ok"
