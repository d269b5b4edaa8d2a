"""Generation: draw a token, put it at the end, go on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from lib.checks import check_at_least, check_tokens
from lib.gpt.kv_cache import KVCache
from lib.gpt.model import MiniGPT
from lib.gpt.sampling import sample


def generate(
    model: MiniGPT,
    tokens: Tensor,
    new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    use_cache: bool = True,
    generator: Generator | None = None,
) -> Tensor:
    """Continue sequences of tokens, one token after another.

    With the cache a step works on the newest token only; without, on all tokens in the window. Both give the same
    tokens. The window is the whole sequence while it fits the context; past that it moves on by half a context at
    a time, see `window_start`, also where the given tokens are already too many. Since learned positions count
    from the window's start, a move makes every key and value anew.

    Args:
        model: in training mode or not; it is evaluated, and left in the mode it came in.
        tokens: (batch, time), at least one each; never modified.
        new_tokens: how many to add to each sequence.
        temperature: at least 0; 0 is greedy.
        top_k: at least 1; no limit when left out.
        top_p: from 0 to 1; no limit when left out.
        use_cache: whether keys and values are kept from step to step.
        generator: source of the random draws; torch's global one when left out.

    Returns:
        (batch, time + new_tokens): what was given, and the new tokens behind it.

    Raises:
        ValueError: a setting is out of range, or tokens are not (batch, time) integers of the vocabulary.

    >>> from lib.gpt import GPTConfig
    >>> _ = torch.manual_seed(0)
    >>> model = MiniGPT(GPTConfig(vocab_size=10, context_length=8, dim=8, layers=2, heads=4))
    >>> start = torch.tensor([[3, 1, 4], [1, 5, 9]])
    >>> longer = generate(model, start, 20, temperature=0)
    >>> longer.shape, torch.equal(longer, generate(model, start, 20, temperature=0, use_cache=False))
    (torch.Size([2, 23]), True)
    """
    check_at_least(0, new_tokens=new_tokens)
    check_tokens("tokens", tokens, model.config.vocab_size)
    batch, time = tokens.shape
    context, weight = model.config.context_length, model.head.weight
    sequence = torch.cat([tokens, tokens.new_zeros(batch, new_tokens)], 1)  # (batch, time + new_tokens)
    cache = KVCache(model.config, batch, dtype=weight.dtype, device=weight.device) if use_cache and batch else None
    with _evaluating(model), torch.inference_mode():
        for end in range(time, time + new_tokens):
            start = window_start(end, context)
            if cache is not None and 0 < cache.length < context:
                start = end - 1  # all before it is in the cache
            elif cache is not None:
                cache.length = 0  # nothing read yet, or full: then the window moves
            logits = model(sequence[:, start:end], cache)[:, -1]
            sequence[:, end] = sample(logits, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    return sequence


def window_start(length: int, context_length: int) -> int:
    """Return from which token on a sequence is read.

    From the first while `length` fits the context C. Past that the start moves in steps of ⌈C / 2⌉, by as many as
    make the window fit; so it holds the last ⌊C / 2⌋ + 1 … C tokens, and most steps can use the cache. It depends
    on the length alone: going on later gives what going on at once would.

    >>> [window_start(length, 4) for length in range(1, 10)]
    [0, 0, 0, 0, 2, 2, 4, 4, 6]
    """
    check_at_least(0, length=length)
    check_at_least(1, context_length=context_length)
    step = -(-context_length // 2)
    return max(0, -(-(length - context_length) // step) * step)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
