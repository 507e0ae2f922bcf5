#!/usr/bin/env bash
# Run the official MCP conformance suite against a server that is already up.
#
#   tests/conformance/run.sh URL [REVISION] [SCENARIO ...]
#   tests/conformance/run.sh http://localhost:8000/mcp
#   tests/conformance/run.sh http://localhost:8000/mcp 2026-07-28 tasks-lifecycle caching
#
# Without a scenario: all that the revision requires, and what the suite has besides.
# Use "localhost" in the URL: the DNS rebinding scenario refuses any other name. The server
# must accept calls without a token (`manage.py up --anonymous ...`). One line per scenario;
# the exit code is 1 if any failed, 2 if the suite could not be run at all.
# TASKHUB_TOOLS_DIR: where Node and the suite are installed (default ~/.cache/taskhub-tools).
set -euo pipefail

readonly SUITE_VERSION=0.2.0-alpha.12
readonly NODE_VERSION=22
readonly SCENARIO_SECONDS=120
readonly SUITE_SECONDS=600

usage() {
  echo "usage: ${0##*/} URL [REVISION] [SCENARIO ...]" >&2
  exit 2
}

fail() {
  echo "${0##*/}: $*" >&2
  exit 2
}

[[ $# -ge 1 ]] || usage
readonly url=$1
readonly revision=${2:-2026-07-28}
shift $(($# < 2 ? $# : 2))
[[ $url =~ ^https?:// ]] || usage
[[ $revision =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || usage

scenarios=("$@")

readonly tools=${TASKHUB_TOOLS_DIR:-${HOME:?}/.cache/taskhub-tools}
readonly node=$tools/node_modules/node/bin/node
readonly suite_dir=$tools/node_modules/@modelcontextprotocol/conformance
readonly suite=$suite_dir/dist/index.js

installed() {
  [[ -x $node && -f $suite ]] && grep -q "\"version\": \"$SUITE_VERSION\"" "$suite_dir/package.json"
}

# The "node" package brings its own binary, because the suite needs a newer Node than many systems have.
if ! installed; then
  command -v npm >/dev/null || fail "npm is needed once, to install Node $NODE_VERSION and the suite into $tools"
  mkdir -p "$tools"
  npm install --prefix "$tools" --no-audit --no-fund --loglevel=error \
    "node@$NODE_VERSION" "@modelcontextprotocol/conformance@$SUITE_VERSION" >&2 || fail "npm install failed"
  installed || fail "npm installed no usable Node in $tools (were its install scripts blocked?)"
fi

# The failed checks where the suite names them (it repeats its whole manual after them), else the last lines.
show_end() {
  local end
  end=$(sed -n '/=== Failed Checks ===/,$p' "$1" | head -n 25)
  [[ -n $end ]] || end=$(tail -n 25 "$1")
  printf '%s\n' "$end" | sed -e $'s/\x1b\\[[0-9;]*m//g' -e 's/^/         | /'
}

readonly kept=$(mktemp -d "${TMPDIR:-/tmp}/conformance.XXXXXX")

# All that the revision requires, and what the suite has besides: nothing may fail, scored or not.
if [[ ${#scenarios[@]} -eq 0 ]]; then
  log=$kept/requirements.log
  status=0
  NO_COLOR=1 timeout "$SUITE_SECONDS" "$node" "$suite" server --url "$url" --requirements "$revision" >"$log" 2>&1 || status=$?
  sed -n '/^=== SUMMARY ===/,$p' "$log"
  grep -q '^Total: [0-9]* passed, 0 failed' "$log" || status=1
  grep -q '0 failing\.' "$log" || status=1
  if [[ $status -ne 0 ]]; then
    echo "${0##*/}: not conformant to $revision; the whole output: $log" >&2
    exit 1
  fi
  echo "conformant to $revision (suite $SUITE_VERSION)"
  rm -r "$kept"
  exit 0
fi

passed=0 failed=0 skipped=0

for scenario in "${scenarios[@]}"; do
  arguments=(server --url "$url" --scenario "$scenario")
  # A tasks scenario belongs to an extension: with a revision named, the suite skips it.
  [[ $scenario == tasks-* ]] || arguments+=(--spec-version "$revision")
  log=$kept/$scenario.log
  status=0
  NO_COLOR=1 timeout "$SCENARIO_SECONDS" "$node" "$suite" "${arguments[@]}" >"$log" 2>&1 || status=$?
  summary=$(grep -Eo 'Passed: [0-9]+/[0-9]+, [0-9]+ failed, [0-9]+ warnings?' "$log" | tail -n 1 || true)
  if [[ -z $summary ]] && grep -q '^SKIPPED: ' "$log"; then
    skipped=$((skipped + 1))
    printf 'skipped  %-48s %s\n' "$scenario" "not part of $revision"
    rm -f "$log"
    continue
  fi
  if [[ $status -ne 0 || -z $summary || $summary != *", 0 failed,"* ]]; then
    failed=$((failed + 1))
    printf 'fail     %-48s %s\n' "$scenario" "${summary:-exit $status}"
    show_end "$log"
    continue
  fi
  # No check ran at all: the suite counts neither a pass nor a failure.
  if [[ $summary == "Passed: 0/0,"* ]]; then
    skipped=$((skipped + 1))
    printf 'skipped  %s\n' "$scenario"
  else
    passed=$((passed + 1))
    printf 'pass     %-48s %s\n' "$scenario" "$summary"
  fi
  rm -f "$log"
done

echo "$passed passed, $failed failed, $skipped skipped ($revision, suite $SUITE_VERSION)"
if [[ $failed -gt 0 ]]; then
  echo "output of the failed scenarios: $kept"
  exit 1
fi
rmdir "$kept"
