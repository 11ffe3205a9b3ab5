#!/usr/bin/env bash
# Can everything that `.[vllm]` asks for be installed together? A dry run: pip resolves it and installs nothing.
#
#     scripts/check_vllm_extra.sh      ends with 0 when it resolves, 1 when it does not
#
# An index that cannot be reached, or is slower than LIMIT_S seconds (600), says nothing about the extra: the script then
# says that nothing was checked, and ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=${LIMIT_S:-600}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unchecked() { echo "vllm extra: NOT CHECKED, $1."; exit 0; }

started=$SECONDS
python=${PYTHON:-$(command -v python3.11 || echo .venv/bin/python)}
"$python" -m venv "$work/env"
# this pip reads the metadata of a wheel where the index serves it, and not the wheel
timeout "$limit" "$work/env/bin/pip" install --quiet --disable-pip-version-check "pip==26.3" >"$work/log" 2>&1 ||
  unchecked "the package index gave no pip within $limit s"
mkdir "$work/project"
cp pyproject.toml README.md LICENSE "$work/project"  # all that the metadata is made from; the tree is left alone
code=0
timeout "$limit" "$work/env/bin/pip" install --dry-run --ignore-installed --use-feature=fast-deps --progress-bar off \
  "$work/project[vllm]" >"$work/log" 2>&1 || code=$?
took="$((SECONDS - started)) s"
if [ "$code" = 0 ]; then
  echo "vllm extra: resolves in $took to $(grep "^Would install" "$work/log" | tr ' ' '\n' | grep -E '^(vllm|torch|numpy)-' | xargs)."
elif [ "$code" = 124 ]; then
  unchecked "the package index needed more than $limit s"
elif grep -q "ResolutionImpossible" "$work/log"; then
  grep -E "conflict|depends on|Cannot install" "$work/log" | tail -40 >&2
  echo "vllm extra: DOES NOT RESOLVE (see above); loosen what conflicts in pyproject.toml." >&2
  exit 1
elif grep -qE "Retrying \(|Could not fetch|ReadTimeout|ConnectionError|NewConnectionError|HTTPError" "$work/log"; then
  unchecked "the package index cannot be reached"
else
  tail -20 "$work/log" >&2
  echo "vllm extra: pip failed with exit code $code (see above)." >&2
  exit 1
fi
