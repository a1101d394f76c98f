#!/usr/bin/env bash
# dev_steps_test.sh SOURCE_DIR: the steps that ./dev and tests/check.sh share.
# A fake cmake takes the place of the real one.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p cmake bin
# shellcheck source=cmake/heartbeat.sh
source "$source_dir/cmake/heartbeat.sh"
# shellcheck source=cmake/configure.sh
source "$source_dir/cmake/configure.sh"

fail() { echo "FAILED: $*" >&2; exit 1; }

# Whoever reads our output does not wait for a beat after the last command.
start=$SECONDS
for step in 'with_heartbeat x true' 'with_heartbeat x true; with_heartbeat y :'
do
  bash -c "set -e; source '$source_dir/cmake/heartbeat.sh'; $step" | cat
done
# shellcheck disable=SC2016  # expanded by the shell that reads it
printf 'kill -9 $PPID\n' >kill_parent
{ bash -c "source '$source_dir/cmake/heartbeat.sh'
           with_heartbeat x bash kill_parent" | cat; } 2>/dev/null || true
[ $((SECONDS - start)) -lt 6 ] || fail "a heartbeat holds the pipe"

# The status and the output are the command's; quietly keeps both for failures.
status=0
with_heartbeat x bash -c 'exit 7' || status=$?
[ "$status" -eq 7 ] || fail "status $status"
[ "$(with_heartbeat x echo said)" = said ] || fail "output is lost"
[ -z "$(quietly echo said 2>&1)" ] || fail "quietly is loud"
status=0
said=$(quietly bash -c 'echo why; exit 5' 2>&1) || status=$?
[ "$status $said" = "5 why" ] || fail "quietly: $status $said"

# configure: nothing while nothing changes, everything afresh when it does.
printf '#!/bin/sh\necho /llama\n' >cmake/fetch.sh
cat >bin/cmake <<'END'
#!/bin/sh
echo "$*" >>calls
mkdir -p build/release
touch build/release/build.ninja
[ ! -f broken ]
END
chmod +x bin/cmake cmake/fetch.sh
PATH=$work/bin:$PATH
echo '{}' >CMakePresets.json
expect_calls() { # count last
  [ "$(wc -l <calls)" -eq "$1" ] || fail "$1 calls expected: $(cat calls)"
  [ "$(tail -n 1 calls)" = "$2" ] || fail "call: $(tail -n 1 calls)"
}
configure release
expect_calls 1 "--fresh --preset release"
configure release
expect_calls 1 "--fresh --preset release"
configure release -DX=1
expect_calls 2 "--fresh --preset release -DX=1"
configure release -DX=1
expect_calls 2 "--fresh --preset release -DX=1"
configure release
expect_calls 3 "--fresh --preset release"
echo '{"version": 4}' >CMakePresets.json
configure release
expect_calls 4 "--fresh --preset release"
# After a failure the tree is not what it was, whatever it was.
touch broken
! configure release -DX=2 2>/dev/null || fail "a failure passes"
rm broken
configure release
expect_calls 6 "--fresh --preset release"
echo ok
