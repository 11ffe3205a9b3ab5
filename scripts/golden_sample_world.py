"""Write tests/golden/sample_world.json: what seed 0 of the sample world is. Run it after a change that is meant.

.venv/bin/python scripts/golden_sample_world.py
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hindcast_dagster.sample.world import World, generate

HOME = Path(__file__).resolve().parent.parent / "tests" / "golden" / "sample_world.json"


def document(world: World) -> dict[str, Any]:
    """Return the golden values of a world: a line per market, and a hash per dump (of its lines, uncompressed)."""
    return {
        "markets": {
            planted.question: [planted.market_id[:10], *asdict(world.golden[planted.market_id]).values()]
            for planted in world.planted
        },
        "dumps": {
            f"{kind} {month}": hashlib.sha256(b"\n".join(world.lines(kind, month))).hexdigest()
            for kind, month in sorted(world.posts)
        },
    }


def text(world: World) -> str:
    """Return the golden file: JSON with one market or dump a line."""
    parts = []
    for name, entries in document(world).items():
        rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items())
        parts.append(f' "{name}": {{\n{rows}\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    HOME.write_text(text(generate()), encoding="utf-8")
    print(f"{HOME.name} is written.")
