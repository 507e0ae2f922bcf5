#!/usr/bin/env bash
# Public clients, unmodified from their registries, against a running TaskHub with the demo.
#   HUB_DATA=DIR tests/clients/run.sh URL
set -euo pipefail
cd "$(dirname "$0")"
url=$1
home=${TASKHUB_TOOLS_DIR:-$HOME/.cache/taskhub-tools}/fastmcp-4.1.2
if [ ! -x "$home/bin/python" ]; then
  uv venv --quiet --python 3.11 "$home"
  uv pip install --quiet --python "$home/bin/python" fastmcp==4.1.2 fastmcp-tasks==4.1.2
fi
token=$(python3 -c 'import json, os; print(json.load(open(os.environ["HUB_DATA"] + "/credentials.json"))["tokens"]["agent-a"])')
timeout 120 "$home/bin/python" fastmcp_client.py "$url" "$token"
