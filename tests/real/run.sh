#!/usr/bin/env bash
# Installs small real models and fourteen real tokenizers, then runs the tests marked `real`. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=$(realpath "${VENV:-.venv}")/bin/python
PYTHON=$PYTHON bash tests/real/fetch.sh
"$PYTHON" -m tests.real.families # converted one after the other, before two processes ask for them
"$PYTHON" -m pytest -m real -n 2 --dist loadfile tests/real "$@"
