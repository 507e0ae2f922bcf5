#!/usr/bin/env bash
# Public clients, unmodified from their registries, against a running TaskHub with the demo.
#   HUB_DATA=DIR tests/clients/run.sh URL
set -euo pipefail
cd "$(dirname "$0")"
url=$1
tools=${TASKHUB_TOOLS_DIR:-$HOME/.cache/taskhub-tools}
home=$tools/fastmcp-4.1.2
if [ ! -x "$home/bin/python" ]; then
  uv venv --quiet --python 3.11 "$home"
  uv pip install --quiet --python "$home/bin/python" fastmcp==4.1.2 fastmcp-tasks==4.1.2
fi
token=$(python3 -c 'import json, os; print(json.load(open(os.environ["HUB_DATA"] + "/credentials.json"))["tokens"]["agent-a"])')
timeout 120 "$home/bin/python" fastmcp_client.py "$url" "$token"

# Signing in instead of bringing a token. With DOCUMENT, the address of a client metadata document that
# the hub can read, programs are known by it as well.
cd ../..
uv run python -m tests.clients.sdk_oauth "$url" "$HUB_DATA" ${DOCUMENT:+"$DOCUMENT"}
inspector=$tools/inspector-2.12.0
export PATH=$tools/node_modules/node/bin:$PATH # Node 22, which tests/conformance/run.sh installs
if [ ! -x "$inspector/node_modules/.bin/mcp-inspector" ]; then
  mkdir -p "$inspector"
  npm install --silent --no-audit --no-fund --prefix "$inspector" @modelcontextprotocol/inspector@2.12.0
fi
INSPECTOR=$inspector/node_modules/.bin/mcp-inspector \
  uv run python -m tests.clients.inspector_oauth "$url" "$HUB_DATA" ${DOCUMENT:+"$DOCUMENT"}
