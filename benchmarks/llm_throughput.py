"""What the LLM layer costs beside a bare AsyncOpenAI loop over the same calls, in the same run, on the same machine.

    python -m benchmarks.llm_throughput [--questions 200] [--agents 40] [--slots 32] [--latency 0.2] [--flat 10000]

A scripted server in a process of its own answers after a fixed latency. Each part goes through `forecast.run` (prompt,
parse, trace and journal included), and then the very requests that reached the server are sent again by a bare loop
with the same concurrency and order of dependence: that is what the machine can do at best. Printed: wall time,
share of the ideal and of the bare loop, CPU per call, for whole forecasts and for the layer alone; memory over many
calls. The archive remembers its answers, for which a pass before has asked: looking through documents is
no part of this (see `retrieval.py`), what is made of the answers is.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hindcast_dagster.forecast.run import build
from hindcast_dagster.llm.model import Model
from hindcast_dagster.llm.openai_compatible import OpenAITransport
from hindcast_dagster.llm.protocol import Decoding, Message
from hindcast_dagster.llm.roster import ad_hoc
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.forecast_world import DEFAULTS, FORECAST, archive, question, seal_eval_set
from tests.scripted_llm import Asked, Script, Stage, scripted_server
from tests.toy_archive import ToyArchive

BARE_SHARE = 0.97
"""Of the bare loop's throughput, whole forecasts included."""
CPU_MS = 1.0
"""Beyond the bare loop, a call of whole forecasts: prompt, parsing, trace and journal included."""
FLAT_MIB = 16.0
MARKERS = {
    "This is round 1. Write": "seed_queries",
    "New evidence of round": "summary",
    "Queries asked so far": "reflection",
    "Label each block of evidence": "tally",
}


ENTRY = """
[models.scripted]
name = "Scripted"
family = "none"
hub_id = "scripted"
backend = "server"
base_url = "{url}"
licence = "none"
cutoff_source = "it knows nothing"
context_length = 131072
"""


class Took(NamedTuple):
    """One pass."""

    wall_s: float
    cpu_s: float
    calls: int


def measured(work: Callable[[], Any], calls: int) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu, calls)


def answer(name: str) -> Any:
    """Return a scripted answer by name; a function of the prompt becomes one of what was asked."""
    found = DEFAULTS.get(name, FORECAST)
    return (lambda asked: found(asked.text)) if callable(found) else found


def script(remember: Callable[[Asked], None]) -> Script:
    stages = [Stage(name, marker, [answer(name)]) for marker, name in MARKERS.items()]
    made = Script(*stages, Stage("forecast", "", [FORECAST]))
    made.remember = False
    original = made.answer

    def noted(messages: Any, decoding: Any, schema: Any = None) -> Any:
        remember(Asked(tuple(messages), decoding, schema, "", 0))
        return original(messages, decoding, schema)

    made.answer = noted  # type: ignore[method-assign]
    return made


class Remembering(ToyArchive):
    """The toy archive, which answers the same question of the same instant again from memory."""

    def __init__(self) -> None:
        super().__init__(archive().documents, distance=lambda _query, _found: 0.5)
        self._views: dict[int, Any] = {}

    def at(self, t0: Any) -> Any:
        """Return the one view of an instant."""
        view = super().at(t0)
        return self._views.setdefault(view.cutoff.epoch, Remembered(view))


class Remembered:
    """A view of it."""

    def __init__(self, view: Any) -> None:
        self.cutoff, self.subreddits = view.cutoff, view.subreddits
        self._view, self._known = view, {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*args: Any, **options: Any) -> Any:
            key = (name, *(tuple(each) if isinstance(each, list) else each for each in args), *options.items())
            if key not in self._known:
                self._known[key] = getattr(self._view, name)(*args, **options)
            return self._known[key]

        return asked


REMEMBERING = Remembering()


def serve(pipe: Any, latency_s: float, slots: int) -> None:
    """Run the server until told to stop; hand over the requests that arrived when asked."""
    seen: list[dict[str, Any]] = []
    with scripted_server(script(lambda asked: seen.append(asked.decoding)), latency_s=latency_s, slots=slots) as server:
        pipe.send(server.base_url)
        while (word := pipe.recv()) != "stop":
            if isinstance(word, float):
                server.latency_s = word
            if word == "take":
                pipe.send(seen[:])
            seen.clear()


def ours(url: str, arm: str, count: int, slots: int) -> Took:
    """Forecast `count` questions through the whole of our code."""
    with tempfile.TemporaryDirectory() as folder:
        roster = Path(folder) / "models.toml"
        roster.write_text(ENTRY.format(url=url))
        store = open_store(Path(folder) / "root")
        settings = load(data_root=str(store.root), llm={"concurrency": slots, "roster_file": roster})
        seal_eval_set(store, [question(number) for number in range(1, count + 1)])
        options: dict[str, Any] = {"arm": arm, "model": "scripted", "eval_set": "small", "runs": 1}
        if arm == "retrieval":
            options["archive"] = REMEMBERING
        return measured(lambda: build(store, settings, **options), 0)


def bare(url: str, chains: list[list[dict[str, Any]]], slots: int) -> Took:
    """Send the same requests with nothing but the client: each chain in order, `slots` chains at once."""
    from openai import AsyncOpenAI

    async def main() -> None:
        client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        free = asyncio.Semaphore(slots)

        async def follow(chain: list[dict[str, Any]]) -> None:
            async with free:
                for request in chain:
                    await client.chat.completions.create(**request)

        await asyncio.gather(*(follow(chain) for chain in chains))
        await client.close()

    return measured(lambda: asyncio.run(main()), sum(map(len, chains)))


def layer(url: str, chains: list[list[dict[str, Any]]], slots: int) -> Took:
    """Send the same requests through `Model.complete`: the LLM layer without prompts, parsing, traces and journal."""

    async def main() -> None:
        model = Model(
            ad_hoc(url, "scripted"), OpenAITransport(ad_hoc(url, "scripted"), url), load(llm={"concurrency": slots}).llm
        )
        free = asyncio.Semaphore(slots)

        async def follow(chain: list[dict[str, Any]]) -> None:
            async with free:
                for request in chain:
                    messages = [Message(turn["role"], turn["content"]) for turn in request["messages"]]
                    decoding = Decoding(request["temperature"], request["max_tokens"], seed=request["seed"])
                    await model.complete(messages, decoding=decoding)

        await asyncio.gather(*(follow(chain) for chain in chains))
        await model.close()

    return measured(lambda: asyncio.run(main()), sum(map(len, chains)))


def as_client_call(request: dict[str, Any]) -> dict[str, Any]:
    extra = {name: request[name] for name in ("top_k", "min_p", "repetition_penalty") if name in request}
    return {name: value for name, value in request.items() if name not in extra} | {"extra_body": extra}


def chained(requests: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group requests by the question that they are about, in order: what one forecast asks one after the other."""
    chains: dict[str, list[dict[str, Any]]] = {}
    for request in requests:
        text = json.dumps(request["messages"])
        number = text.split("launch rocket ", 1)[1].split(" ", 1)[0]
        chains.setdefault(number, []).append(as_client_call(request))
    return list(chains.values())


def compare(pipe: Any, url: str, arm: str, count: int, given: argparse.Namespace) -> bool:
    """Run one arm and the bare loop in turn, and print the best of each: the machine is shared."""
    passes: dict[str, list[Took]] = {"forecasts": [], "layer": [], "bare": []}
    chains: list[list[dict[str, Any]]] = []
    ours(url, arm, count, given.slots)  # what is read once a process, and what the archive remembers
    for _ in range(given.repeats):
        pipe.send("forget")
        took = ours(url, arm, count, given.slots)
        pipe.send("take")
        chains = chained(pipe.recv())
        passes["forecasts"].append(took._replace(calls=sum(map(len, chains))))
        passes["layer"].append(layer(url, chains, given.slots))
        passes["bare"].append(bare(url, chains, given.slots))
    longest = max(map(len, chains))
    ideal = given.latency * longest * -(-len(chains) // given.slots)
    wall = {name: min(took.wall_s for took in found) for name, found in passes.items()}
    cpu = {name: min(1_000 * took.cpu_s / took.calls for took in found) for name, found in passes.items()}
    print(
        f"{arm}: {len(chains)} forecasts, {sum(map(len, chains))} calls, longest chain {longest}, {given.slots} slots"
    )
    for name in passes:
        shares = f"{ideal / wall[name]:.3f} of ideal, {wall['bare'] / wall[name]:.3f} of bare"
        print(
            f"  {name:<9} {wall[name]:6.2f} s, {shares}; {cpu[name]:.2f} ms CPU a call, {cpu[name] - cpu['bare']:+.2f}"
        )
    return wall["bare"] / wall["forecasts"] >= BARE_SHARE and cpu["forecasts"] - cpu["bare"] <= CPU_MS


def flat(pipe: Any, url: str, calls: int, slots: int) -> bool:
    """Make many calls with the model alone and print the growth of memory after the first fifth."""
    pipe.send(0.0)
    entry = ad_hoc(url, "scripted")
    ask = [Message("system", "You forecast."), Message("user", "Will it rain? " * 100)]

    async def main() -> float:
        model = Model(entry, OpenAITransport(entry, url), load(llm={"concurrency": slots}).llm)
        waiting = iter(range(calls))
        settled = 0.0

        async def worker() -> None:
            nonlocal settled
            for number in waiting:
                await model.complete(ask, decoding=Decoding(temperature=0.1, max_tokens=64, seed=number))
                if number == calls // 5:
                    settled = resident_mib()

        await asyncio.gather(*(worker() for _ in range(slots)))
        await model.close()
        return resident_mib() - settled

    started = time.perf_counter()
    growth = asyncio.run(main())
    rate = calls / (time.perf_counter() - started)
    print(
        f"memory: {growth:+.1f} MiB from call {calls // 5:,} to call {calls:,} (bound {FLAT_MIB}); {rate:.0f} calls/s"
    )
    return growth <= FLAT_MIB


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--agents", type=int, default=40)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--flat", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    pipe, other = spawn.Pipe()
    process = spawn.Process(target=serve, args=(other, given.latency, given.slots), daemon=True)
    process.start()
    url = pipe.recv()
    parts = (("zero_shot", given.questions), ("retrieval", given.agents))
    kept = [compare(pipe, url, arm, count, given) for arm, count in parts if count]
    if given.flat:
        kept.append(flat(pipe, url, given.flat, given.slots))
    pipe.send("stop")
    process.join()
    print("within every bound" if all(kept) else "a bound was missed")
    raise SystemExit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
