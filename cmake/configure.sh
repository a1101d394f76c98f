# shellcheck shell=bash
# Sourced, after cmake/heartbeat.sh, at the root of the tree: configures
# build/PRESET.

# Only when the flags are not those of last time, and then afresh: a cache
# entry that an earlier -D made must not outlive it.
configure() { # preset [cmake flags]
  local key configured=build/$1/.configured
  key="$(cmake/fetch.sh --print-llama) $* $(cksum <CMakePresets.json)"
  if [ ! -f "build/$1/build.ninja" ] ||
    [ "$(cat "$configured" 2>/dev/null)" != "$key" ]; then
    rm -f "$configured"
    with_heartbeat "configuring $1" quietly cmake --fresh --preset "$@" ||
      return
    echo "$key" >"$configured"
  fi
}
