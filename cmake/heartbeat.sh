# shellcheck shell=bash
# Sourced by ./dev and tests/check.sh: a long command says that it still works.

# with_heartbeat LABEL COMMAND…: runs the command, with a line on standard
# output every nine seconds. The beat reads a pipe that only this shell writes
# to, so it has no process of its own to wait for and ends with this shell,
# however that ends; nobody who reads our output has to wait for it.
with_heartbeat() {
  local label=$1 start=$SECONDS status=0 beat
  shift
  exec 9> >(
    # A status above 128 is the time-out, any other the end of the pipe.
    while read -rt 9 || [ $? -gt 128 ]; do
      echo "  … $((SECONDS - start)) s: $label"
    done
  )
  beat=$!
  "$@" 9>&- || status=$?
  exec 9>&-
  wait "$beat" 2>/dev/null || true
  return "$status"
}

# quietly COMMAND…: keeps the command's output back unless it fails.
quietly() {
  local output status=0
  output=$(mktemp)
  "$@" >"$output" 2>&1 || { status=$?; cat "$output" >&2; }
  rm -f "$output"
  return "$status"
}
