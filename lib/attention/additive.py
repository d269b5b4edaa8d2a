"""Additive attention: a small network scores a query against a key."""

import torch
from torch import Tensor, nn

from lib.attention.dot_product import masked_softmax
from lib.attention.inputs import blank_unseen, check_inputs
from lib.checks import check_at_least, check_features


class AdditiveAttention(nn.Module):
    """Attend by the scores of a small network, so that query and key may differ in width.

        a(q, k) = vᵀ tanh(W_q q + W_k k)        output = softmax(a) V

    Without biases, as in the paper.

    Args:
        query_dim: width of a query.
        key_dim: width of a key.
        hidden_dim: width of the hidden layer.

    Source: Bahdanau, Cho & Bengio 2015, appendix A.1.2.

    >>> attend = AdditiveAttention(query_dim=5, key_dim=3, hidden_dim=8)
    >>> key = torch.zeros(2, 7, 3)
    >>> output, weights = attend(torch.zeros(2, 4, 5), key, key)
    >>> output.shape, weights.shape
    (torch.Size([2, 4, 3]), torch.Size([2, 4, 7]))
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        check_at_least(1, query_dim=query_dim, key_dim=key_dim, hidden_dim=hidden_dim)
        self.q_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend from (..., query, query_dim) to (..., key, key_dim) and values (..., key, value_dim).

        Returns the output (..., query, value_dim) and the weights (..., query, key), to which `mask`
        broadcasts. Raises ValueError where shapes or types don't fit.
        """
        check_inputs(query, key, value, mask, same_width=False)
        check_features("query", query, self.q_proj.in_features, time=True)
        check_features("key", key, self.k_proj.in_features, time=True)
        own = self.q_proj.weight.dtype
        if query.dtype != own and not torch.is_autocast_enabled(query.device.type):
            raise ValueError(f"query, key and value must be of the weights' type {own}, got {query.dtype}")
        q, k, value = self.q_proj(query), self.k_proj(blank_unseen(key, mask)), blank_unseen(value, mask)
        hidden = torch.tanh(q[..., :, None, :] + k[..., None, :, :])  # (..., query, key, hidden)
        weights = masked_softmax(self.score(hidden).squeeze(-1), mask)  # (..., query, key)
        return weights @ value, weights
