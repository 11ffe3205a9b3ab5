#!/usr/bin/env bash
# Writes the sha256 of every file of every pinned package into requirements/*.lock (needs `uv` on the PATH or in $UV).
# Change a pin by hand (name==version, its old hashes may stay), then run this; the versions are taken as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

for name in "${@:-run dev audit}"; do
  for lock in $name; do
    file=requirements/$lock.lock
    head=$(grep '^#' "$file")
    pins=$(mktemp --suffix=.in)
    sed -n 's/^\([A-Za-z0-9._-]*==[^ ;\\]*\).*/\1/p' "$file" > "$pins"
    "${UV:-uv}" pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header --universal \
      --python-version 3.11 "$pins" --output-file "$pins.out" > /dev/null
    { echo "$head"; cat "$pins.out"; } > "$file"
    rm -f "$pins" "$pins.out"
    echo "$file: $(grep -c '==' "$file") packages, $(grep -c -- --hash= "$file") hashes"
  done
done
