#!/usr/bin/env bash
# The pipeline on real input, where the real samples lie beside the checkout: two real dumps through corpus, archive and
# search; 104 real resolved markets through fetch, prices, eval set, baselines, the embedded model, scores and report.
# Ends with one line per fact that was checked, and fails on the first that does not hold.
set -euo pipefail
cd "$(dirname "$0")/.."
shared=$(cd .. && pwd)/shared
if [ ! -d "$shared/data" ]; then
  echo "scripts/real_input.sh: the real samples (../shared/data) are not here; nothing checked."
  exit 0
fi
questions=${QUESTIONS:-20}
work=$(mktemp -d)
server=""
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$work"' EXIT

cat >"$work/hindcast.toml" <<'TOML'
[embedding]
model = "minilm"

[llm]
structured = true
concurrency = 2
TOML
hindcast() { HF_HUB_OFFLINE=1 .venv/bin/hindcast --data-root "$work" "$@" 2>>"$work/progress.log"; }
holds() { # NAME PYTHON-EXPRESSION: the expression sees the JSON document on stdin as d
  .venv/bin/python -c "
import json, sys
d = json.load(sys.stdin)
ok = bool($2)
print(('ok    ' if ok else 'WRONG '), sys.argv[1])
sys.exit(0 if ok else f'found: {json.dumps(d)[:600]}')" "$1"
}

hindcast corpus build --month 2019-10 --kind submissions --dump "$shared/data/reddit/AskMen_submissions.zst" \
  --all-subreddits --json | holds "AskMen 2019-10: 13,050 posts, 765 kept, ledger as in the field notes" \
  "d['kept'] == 765 and d['lines'] == 13050 and {k: v for k, v in d['dropped'].items() if v} == {'author_gone': 6671, 'text_gone': 3915, 'low_score': 1233, 'few_comments': 2, 'few_words': 464}"
hindcast corpus build --month 2005-12 --kind comments --dump "$shared/data/reddit/RC_2005-12.zst" \
  --all-subreddits --json | holds "RC_2005-12: 1,075 comments, 80 kept, ledger as in the field notes" \
  "d['kept'] == 80 and d['lines'] == 1075 and {k: v for k, v in d['dropped'].items() if v} == {'author_gone': 185, 'low_score': 783, 'mostly_link': 7, 'few_words': 20}"

hindcast archive build --month 2019-10 --json | holds "2019-10 is embedded and indexed" "d['built']['submissions']['rows'] == 765"
hindcast archive build --month 2005-12 --json | holds "2005-12 is indexed" "d['built']['comments']['rows'] == 80"
hindcast search "how do you deal with a breakup" --cutoff 2019-10-16 --k 20 --json |
  holds "search under 2019-10-16 answers 20 posts, none at or after the cutoff" \
    "len(d['hits']) == 20 and all(h['created_at'] < d['cutoff'] == 1571184000 for h in d['hits'])"
hindcast search "how do you deal with a breakup" --cutoff 2019-10-01 --json |
  holds "search under 2019-10-01 answers nothing and says why" "d['hits'] == [] and d['note']"

port=$(.venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
.venv/bin/python "$shared/tools/polymarket_stub.py" "$shared/data/polymarket/resolved_markets_with_history_open.jsonl.gz" \
  --port "$port" >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 50); do grep -q markets "$work/server.log" && break; sleep 0.1; done
export HINDCAST_POLYMARKET__GAMMA_URL="http://127.0.0.1:$port"
export HINDCAST_POLYMARKET__CLOB_URL="http://127.0.0.1:$port" HINDCAST_POLYMARKET__DATA_URL="http://127.0.0.1:$port"

hindcast markets fetch --json | holds "104 real markets fetched, parsed and kept" "d['fetched'] == d['parsed'] == d['kept'] == 104"
hindcast evalset build real --t0 day_before_close --all --json |
  holds "eval set day_before_close: n = 104, each priced before t0" \
    "len(d['questions']) == 104 and all(q['price_at_t0'] is not None for q in d['questions'])"
hindcast forecast baselines --eval-set real --json | holds "baselines without a model are sealed" "d"
hindcast forecast run --arm zero_shot --model smollm2 --eval-set real --runs 1 --limit "$questions" --json |
  holds "the embedded model forecast $questions real questions" "d['rows'] >= $questions"
hindcast score --eval-set real --json >"$work/score.json"
holds "market baseline: Brier 0.0219, accuracy 0.9712, n = 104; what is missing is listed" \
  "[(round(c['brier'], 4), round(c['accuracy'], 4), c['n']) for c in d['cells'] if c['arm'] == 'market_price'] == [(0.0219, 0.9712, 104)] and d['missing']" \
  <"$work/score.json"
hindcast audit --eval-set real --json | holds "the leak audit is clean" "d['clean'] and d['forecasts'] > 0"
hindcast report --eval-set real --json | holds "the report is written" "d['eval_set'] == 'real'"
hindcast score --eval-set real
