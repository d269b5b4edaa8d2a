"""PyTorch's Transformer layers: which of them have a counterpart here."""

from torch import nn


def check_layer(other: nn.Module) -> None:
    """Raise unless a `TransformerBlock` can compute what PyTorch's encoder or decoder layer computes.

    Raises:
        ValueError: naming every option that has no counterpart.

    >>> check_layer(nn.TransformerEncoderLayer(8, 2).eval())
    Traceback (most recent call last):
        ...
    ValueError: other must be without self_attn.batch_first=False
    """
    if type(other) is nn.TransformerEncoderLayer:
        attentions, dropouts = ["self_attn"], ["dropout1", "dropout2"]
    elif type(other) is nn.TransformerDecoderLayer:
        attentions, dropouts = ["self_attn", "multihead_attn"], ["dropout1", "dropout2", "dropout3"]
    else:  # a subclass may compute anything
        name = type(other).__name__
        raise ValueError(f"other must be an nn.TransformerEncoderLayer or nn.TransformerDecoderLayer, got {name}")
    unsupported = [f"{name}.{option}" for name in attentions for option in _attention_options(getattr(other, name))]
    rates = {name: getattr(getattr(other, name), "p", None) for name in ["dropout", *dropouts]}
    if None in rates.values() or len({rates[name] for name in dropouts}) > 1:
        unsupported.append(f"dropouts that differ: {rates}")
    if unsupported:
        raise ValueError(f"other must be without {', '.join(unsupported)}")


def _attention_options(attend: nn.Module) -> list[str]:
    if type(attend) is not nn.MultiheadAttention:
        return [f"a {type(attend).__name__}"]
    options = {
        "kdim or vdim": attend.in_proj_weight is None,
        "add_bias_kv=True": attend.bias_k is not None,
        "add_zero_attn=True": attend.add_zero_attn,
        "batch_first=False": not attend.batch_first,
        f"dropout={attend.dropout} while training": attend.training and attend.dropout > 0,
    }
    return [option for option, used in options.items() if used]
