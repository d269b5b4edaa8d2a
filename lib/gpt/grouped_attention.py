"""Self-attention for generation: few key-value heads, and a place to put them."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from lib.attention import dot_product_attention

Update = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class GroupedQueryAttention(nn.Module):
    """Self-attention in which groups of query heads share keys and values.

        headᵢ = Attention(X W_Qⁱ, X W_Kʲ, X W_Vʲ), j = ⌊i · kv_heads / heads⌋        output = Concat(headᵢ) W_O

    With `kv_heads` = `heads` it is multi-head attention, with 1 multi-query attention. One matrix makes queries,
    keys and values; all projections have biases, both as in GPT-2. Weights 2 dim² (1 + kv_heads / heads).

    Args:
        dim: width of a token.
        heads: query heads; must divide `dim`.
        kv_heads: key-value heads; must divide `heads`.

    Source: Ainslie et al. 2023, §2.2; Shazeer 2019 (multi-query).

    >>> import torch
    >>> attend = GroupedQueryAttention(dim=8, heads=4, kv_heads=2)
    >>> output, weights = attend(torch.zeros(3, 5, 8), need_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 4, 5, 5]))
    """

    def __init__(self, dim: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        if dim % heads or heads % kv_heads:
            got = f"dim = {dim}, heads = {heads}, kv_heads = {kv_heads}"
            raise ValueError(f"heads must divide dim, and kv_heads heads, got {got}")
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.qkv_proj = nn.Linear(dim, dim + 2 * kv_heads * self.head_dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, update: Update | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from tokens x (batch, time, dim) to themselves, and to earlier ones where `update` knows them.

        `update` is handed the keys and values (batch, kv_heads, time, head_dim) and returns those to attend to
        (batch, kv_heads, key, head_dim). `mask` is boolean (time, key), each row with a key to attend to. Returns
        the output (batch, time, dim), and the weights (batch, heads, time, key) if asked for.
        """
        batch, time, dim = x.shape
        parts = self.qkv_proj(x).view(batch, time, -1, self.head_dim).transpose(1, 2)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), 1)
        if update is not None:
            k, v = update(k, v)
        # The queries of a group stand one behind the other as queries of their one key head: no key is repeated.
        group = self.heads // self.kv_heads
        q = q.reshape(batch, self.kv_heads, group * time, self.head_dim)
        mask = mask if mask is None or group == 1 else mask.repeat(group, 1)
        weights = None
        if need_weights:
            output, weights = dot_product_attention(q, k, v, mask)
            weights = weights.view(batch, self.heads, time, -1)
        else:
            output = scaled_dot_product_attention(q, k, v, mask)
        output = output.reshape(batch, self.heads, time, self.head_dim).transpose(1, 2)
        return self.out_proj(output.reshape(batch, time, dim)), weights
