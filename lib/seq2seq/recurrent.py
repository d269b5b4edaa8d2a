"""A bidirectional GRU over sequences of different lengths: packed where it runs, a scan where it is traced."""

import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from lib.checks import values_known


class BidirectionalGRU(nn.Module):
    """Read sequences from left to right and from right to left, so that neither direction reads padding.

        →hᵢ = GRU(xᵢ, →hᵢ₋₁)        ←hᵢ = GRU(xᵢ, ←hᵢ₊₁)        on padding h stays as it is

    The numbers are those of `nn.GRU(…, bidirectional=True, batch_first=True)`, which can't be compiled, and can be
    exported for sequences of one length only.

    Args:
        input_dim: width of a token.
        hidden_dim: width of each direction's state.

    Source: Schuster & Paliwal 1997; Cho et al. 2014 (GRU).

    >>> states, ends = BidirectionalGRU(3, 4)(torch.zeros(2, 5, 3))
    >>> torch.equal(states[:, -1, :4], ends[:, :4]), torch.equal(states[:, 0, 4:], ends[:, 4:])
    (True, True)
    """

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.rightward, self.leftward = nn.GRUCell(input_dim, hidden_dim), nn.GRUCell(input_dim, hidden_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read x (batch, time, input_dim).

        `mask` is boolean (batch, time), `True` on tokens, which stand before the padding; None without padding.
        Returns states (batch, time, 2 hidden_dim), zeros on padding, and the ends [→h_T; ←h₁] (batch, 2 hidden_dim).
        """
        if values_known():
            states, ends = self._run(x) if mask is None else self._run_packed(x, mask.sum(-1))
        else:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
            (right, right_end), (left, left_end) = (self._scan(x, mask, reverse=reverse) for reverse in (False, True))
            states, ends = torch.cat([right, left], -1), torch.stack([right_end, left_end])
            states = states.masked_fill(~mask[..., None], 0.0)  # (batch, time, 2 hidden)
        return states, torch.cat([ends[0], ends[1]], -1)  # (batch, 2 hidden)

    def _run(self, x: Tensor | PackedSequence) -> tuple[Tensor, Tensor]:
        """PyTorch's fused kernel; gives the states, and ends (direction, batch, hidden)."""
        weights: list[Tensor] = [*self.rightward.parameters(), *self.leftward.parameters()]
        options = (True, 1, 0.0, self.training, True)  # biases, one layer, no dropout, both directions
        if isinstance(x, PackedSequence):
            start = x.data.new_zeros(2, int(x.batch_sizes[0]), self.hidden_dim)
            return torch.gru(x.data, x.batch_sizes, start, weights, *options)
        start = x.new_zeros(2, x.shape[0], self.hidden_dim)
        return torch.gru(x, start, weights, *options, True)  # batch first

    def _run_packed(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        empty = (lengths == 0)[:, None]  # (batch, 1); packing wants at least one token
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        data, ends = self._run(packed)
        states, _ = pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=x.shape[1])
        assert packed.unsorted_indices is not None  # it was sorted by length for the kernel
        ends = ends.index_select(1, packed.unsorted_indices)
        return states.masked_fill(empty[..., None], 0.0), ends.masked_fill(empty, 0.0)

    def _scan(self, x: Tensor, mask: Tensor, *, reverse: bool) -> tuple[Tensor, Tensor]:
        """One direction, step by step: states (batch, time, hidden) and the end (batch, hidden)."""
        cell = self.leftward if reverse else self.rightward

        def step(h: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            token, real = inputs
            h = torch.where(real, cell(token, h), h)
            return h, h.clone()  # a scan's state and output may not be the same tensor

        start = x.new_zeros(x.shape[0], self.hidden_dim)
        end, states = scan(step, start, (x.transpose(0, 1), mask.T[..., None]), reverse=reverse)
        return states.transpose(0, 1), end
