#!/usr/bin/env bash
# Sets up everything the tests need on a fresh machine, then checks style and types and runs all tests.
# VENV=folder chooses another virtual environment; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v chromium >/dev/null || ! fc-list 2>/dev/null | grep -qi "color emoji"; then
  as_root=$([ "$(id -u)" = 0 ] || echo sudo)
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq chromium fontconfig fonts-dejavu-core fonts-noto-color-emoji fonts-noto-cjk >/dev/null
fi

VENV=${VENV:-.venv}
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
"$VENV/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt

"$VENV/bin/ruff" check .
"$VENV/bin/ruff" format --check .
"$VENV/bin/mypy"
# The same requirements must resolve where ZeroGPU Spaces run.
"$VENV/bin/uv" pip compile --quiet --python-version 3.12 --python-platform x86_64-unknown-linux-gnu requirements.txt | grep -E "^torch=="
"$VENV/bin/python" -m pytest -n 2 --dist loadfile "$@"
