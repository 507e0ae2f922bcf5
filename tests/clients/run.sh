#!/usr/bin/env bash
# Public clients, unmodified from their registries, against a running TaskHub.
#
#   uv run manage.py up --data-dir DIR --server python:tests.clients.extra_server:server
#   HUB_DATA=DIR tests/clients/run.sh URL [CLIENT ...]
#   HUB_DATA=.taskhub tests/clients/run.sh http://127.0.0.1:8000/mcp typescript_1
#
# One line per client; the exit code is 1 if any failed, 2 if they could not be run at all.
# TASKHUB_TOOLS_DIR: where clients and Node are installed (default ~/.cache/taskhub-tools).
set -euo pipefail

readonly CLIENTS=(python_1_30 hosting_client python_2_3 fastmcp_client typescript_1 typescript_2 inspector sdk_oauth inspector_oauth snippets)
readonly PYTHON_VERSION=3.11
readonly CLIENT_SECONDS=200

usage() {
  echo "usage: HUB_DATA=DIR ${0##*/} URL [CLIENT ...]" >&2
  exit 2
}

fail() {
  echo "${0##*/}: $*" >&2
  exit 2
}

[[ $# -ge 1 && -n ${HUB_DATA:-} ]] || usage
readonly url=$1
shift
[[ $url =~ ^https?:// ]] || usage
data=$(realpath "$HUB_DATA")
credentials=$data/credentials.json
[[ -r $credentials ]] || fail "no $credentials: was the hub started with demo data?"
cd "$(dirname "$0")"

names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=("${CLIENTS[@]}")
readonly tools=${TASKHUB_TOOLS_DIR:-${HOME:?}/.cache/taskhub-tools}
readonly javascript=$tools/clients-javascript
readonly node=$javascript/node_modules/node/bin/node

token() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["tokens"][sys.argv[2]])' "$credentials" "$1"
}

# A virtual environment for the client's requirements: made again when they change.
install_python() {
  local home=$tools/clients-$1
  cmp --silent "$1.txt" "$home/installed.txt" && return
  command -v uv >/dev/null || fail "uv is needed once, to install $1 into $home"
  rm -rf "$home"
  uv venv --quiet --python "$PYTHON_VERSION" "$home"
  cp "$1.txt" "$home/requirements.txt"
  # Not from here: uv would add the versions that the project is held to.
  (cd "$home" && uv pip install --quiet --python bin/python --requirement requirements.txt) || fail "installing $1.txt failed"
  mv "$home/requirements.txt" "$home/installed.txt"
}

# The "node" package brings its own binary, because the Inspector needs a newer Node than many systems have.
install_javascript() {
  if ! cmp --silent package.json "$javascript/installed.json"; then
    command -v npm >/dev/null || fail "npm is needed once, to install Node and the JavaScript clients into $javascript"
    rm -rf "$javascript"
    mkdir -p "$javascript"
    cp package.json "$javascript"
    npm install --prefix "$javascript" --no-audit --no-fund --loglevel=error >&2 || fail "npm install failed"
    [[ -x $node ]] || fail "npm installed no usable Node in $javascript (were its install scripts blocked?)"
    cp package.json "$javascript/installed.json"
  fi
  cp ./*.mjs "$javascript" # a module finds packages from where it lies
}

client() {
  arguments=("$url" "$agent_a" "$agent_b")
  if [[ $1 == *_oauth ]]; then
    # These sign in, and register with the hub's own commands: they run in the project's environment.
    install_javascript
    export PATH=$javascript/node_modules/node/bin:$PATH INSPECTOR=$javascript/node_modules/.bin/mcp-inspector
    command=(uv run --project ../.. --directory ../.. python -m "tests.clients.$1")
    arguments=("$url" "$data")
  elif [[ $1 == snippets ]]; then
    # What the console and the docs say to paste, each by the environment of its SDK.
    install_python fastmcp_client
    install_javascript
    export PATH=$javascript/node_modules/node/bin:$PATH INSPECTOR=$javascript/node_modules/.bin/mcp-inspector
    command=(uv run --project ../.. --directory ../.. python -m tests.clients.snippets)
  elif [[ -f $1.py ]]; then
    local environment=$1
    [[ $1 != hosting_client ]] || environment=python_1_30
    install_python "$environment"
    command=("$tools/clients-$environment/bin/python" "$1.py")
  elif [[ -f $1.mjs ]]; then
    install_javascript
    command=("$node" "$javascript/$1.mjs")
  else
    fail "no such client: $1"
  fi
}

kept=$(mktemp -d "${TMPDIR:-/tmp}/clients.XXXXXX")
agent_a=$(token agent-a)
agent_b=$(token agent-b)
failed=0

for name in "${names[@]}"; do
  client "$name"
  log=$kept/$name.log
  if timeout "$CLIENT_SECONDS" "${command[@]}" "${arguments[@]}" >"$log" 2>&1; then
    tail -n 1 "$log"
    rm -f "$log"
  else
    failed=$((failed + 1))
    printf 'FAILED  %s\n' "$name"
    tail -n 25 "$log" | sed 's/^/        | /'
  fi
done

if [[ $failed -gt 0 ]]; then
  echo "$failed of ${#names[@]} failed; output: $kept"
  exit 1
fi
rmdir "$kept"
