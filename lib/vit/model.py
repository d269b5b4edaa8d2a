"""Vision Transformer: an image is cut into patches, each patch is a token, and an encoder reads them."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.checks import check_at_least, values_known
from lib.transformer import Encoder, LearnedPositions, sinusoidal_positions
from lib.vit.patches import patch_grid, patchify


@dataclass(frozen=True)
class ViTConfig:
    """What a ViT is built from.

    Raises:
        ValueError: sizes don't fit each other, a number is out of range, or a word is unknown.

    >>> config = ViTConfig(image_size=224, patch_size=16, channels=3, dim=768, layers=12, heads=12, classes=1000)
    >>> config.grid, config.patches, config.tokens
    ((14, 14), 196, 197)
    """

    image_size: int | tuple[int, int]
    """side of the image in pixels, or (height, width)"""
    patch_size: int
    """side of a patch in pixels"""
    channels: int
    dim: int
    """width of a token"""
    layers: int
    heads: int
    classes: int
    pooling: Literal["cls", "mean"] = "cls"
    """what the classifier reads: an extra first token, or the mean of all patches"""
    positions: Literal["random", "sinusoidal", "none"] = "random"
    """what the learned table of positions starts from; "none" for no positions at all"""
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in ("patch_size", "channels", "dim", "layers", "heads", "classes")}
        if not all(isinstance(size, int) for size in (*self.shape, *sizes.values())) or len(self.shape) != 2:
            raise ValueError(f"sizes must be integers, image_size one or (height, width), got {self}")
        check_at_least(1, **sizes)
        patch_grid(*self.shape, self.patch_size)
        if self.dim % self.heads:
            raise ValueError(f"heads must divide dim, got dim = {self.dim} and heads = {self.heads}")
        if self.pooling not in ("cls", "mean"):
            raise ValueError(f'pooling must be "cls" or "mean", got {self.pooling!r}')
        if self.positions not in ("random", "sinusoidal", "none"):
            raise ValueError(f'positions must be "random", "sinusoidal" or "none", got {self.positions!r}')
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"dropout must lie in 0 … 1, got {self.dropout}")

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) of the image in pixels."""
        return self.image_size if isinstance(self.image_size, tuple) else (self.image_size, self.image_size)

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of patches."""
        return patch_grid(*self.shape, self.patch_size)

    @property
    def patches(self) -> int:
        """N, number of patches."""
        return self.grid[0] * self.grid[1]

    @property
    def tokens(self) -> int:
        """Number of tokens that the encoder reads: the patches, and [CLS] if there is one."""
        return self.patches + (self.pooling == "cls")


class ViT(nn.Module):
    """Classify images by reading their patches as a sequence.

        z₀ = [x_cls; x₁E; …; x_N E] + E_pos        z = LN(Encoder(z₀))        logits = Head(z⁰)

    With pooling="mean" there is no x_cls, and the head reads the mean of all z. Linear layers have biases. Every
    token has its row in E_pos, [CLS] the first.

    Args:
        config: sizes; see `ViTConfig`.

    Source: Dosovitskiy et al. 2021, equations 1–4.

    >>> model = ViT(ViTConfig(image_size=32, patch_size=4, channels=3, dim=16, layers=2, heads=4, classes=10))
    >>> model(torch.zeros(8, 3, 32, 32)).shape
    torch.Size([8, 10])
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = nn.Linear(config.channels * config.patch_size**2, config.dim)
        self.cls_token = nn.Parameter(torch.zeros(config.dim)) if config.pooling == "cls" else None
        self.positions = _positions(config)
        with_bias = partial(MultiHeadAttention, bias=True)
        self.encoder = Encoder(config.dim, config.heads, config.layers, attention=with_bias, dropout=config.dropout)
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes) of images (batch, channels, height, width)."""
        tokens, _ = self.encode(images)
        return self.classify(tokens)

    def encode(
        self, images: Tensor, *, visible: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return the encoder's tokens, and its attention weights if asked for.

        Args:
            images: (batch, channels, height, width).
            visible: (batch, k) indices of the patches to read, others are left out of the sequence; all by default.
            need_weights: whether weights are wanted.

        Returns:
            Tokens (batch, tokens, dim), [CLS] first if there is one, and weights
            (batch, layers, heads, tokens, tokens) or None.

        Raises:
            ValueError: images are not of the model's size or hold integers, or `visible` are not indices of
                different patches for each image.
        """
        tokens = self.patch_tokens(images)
        batch, patches, dim = tokens.shape
        if visible is not None:
            check_visible(visible, patches, batch)
            tokens = tokens.gather(1, visible[..., None].expand(-1, -1, dim))  # (batch, k, dim)
        if self.cls_token is not None:
            first = self.cls_token if self.positions is None else self.cls_token + self.positions(1)
            tokens = torch.cat([first.expand(batch, 1, dim), tokens], 1)  # (batch, 1 + k, dim)
        return self.encoder(tokens, need_weights=need_weights)

    def patch_tokens(self, images: Tensor) -> Tensor:
        """Return the patches as tokens with positions (batch, patches, dim), as they enter the encoder."""
        wanted = (self.config.channels, *self.config.shape)
        if images.shape[1:] != wanted or not images.is_floating_point():
            expected = ", ".join(map(str, wanted))
            got = f"{tuple(images.shape)} {images.dtype}"
            raise ValueError(f"images must be (batch, {expected}) floating-point numbers, got {got}")
        tokens = self.patch_embed(patchify(images, self.config.patch_size))
        if self.positions is None:
            return tokens
        return tokens + self.positions(self.config.patches, offset=self.config.tokens - self.config.patches)

    def classify(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, classes) of the encoder's tokens (batch, tokens, dim)."""
        return self.head(tokens[:, 0] if self.cls_token is not None else tokens.mean(1))


def grid_positions(rows: int, columns: int, dim: int) -> Tensor:
    """Return a vector for each place of a grid: half of it tells the row, half the column, both sinusoidal.

    Args:
        rows, columns: size of the grid.
        dim: width of a token, even.

    Returns:
        (rows · columns, dim), in reading order.

    Raises:
        ValueError: `dim` is odd.

    Source: He et al. 2022, appendix A.1; there the table is not trained.

    >>> table = grid_positions(2, 3, 8)
    >>> torch.equal(table[0, :4], table[2, :4]), torch.equal(table[0, 4:], table[3, 4:])  # same row, same column
    (True, True)
    """
    if dim % 2:
        raise ValueError(f"dim must be even, half for rows and half for columns, got {dim}")
    down, across = sinusoidal_positions(rows, dim // 2), sinusoidal_positions(columns, dim // 2)
    return torch.cat([down.repeat_interleave(columns, 0), across.repeat(rows, 1)], -1)


def check_visible(visible: Tensor, patches: int, batch: int | None = None) -> None:
    """Raise unless `visible` (batch, k) holds for each image the indices of k ≥ 1 different patches.

    >>> check_visible(torch.tensor([[0, 3], [2, 2]]), patches=4)
    Traceback (most recent call last):
        ...
    ValueError: visible must be different indices in 0 … 3 for each image, got [2, 2]
    """
    rows = "batch" if batch is None else batch
    integers = visible.dtype in (torch.int32, torch.int64)
    if visible.ndim != 2 or not integers or visible.shape[1] == 0 or batch not in (None, visible.shape[0]):
        raise ValueError(f"visible must be ({rows}, k) integers, k ≥ 1, got {tuple(visible.shape)} {visible.dtype}")
    if values_known():
        ordered = visible.sort(-1).values
        wrong = (ordered.diff() == 0).any(-1) | (ordered[:, 0] < 0) | (ordered[:, -1] >= patches)
        if wrong.any():
            first = visible[wrong][0].tolist()
            raise ValueError(f"visible must be different indices in 0 … {patches - 1} for each image, got {first}")


def _positions(config: ViTConfig) -> LearnedPositions | None:
    if config.positions == "none":
        return None
    positions = LearnedPositions(config.tokens, config.dim)
    if config.positions == "sinusoidal":
        with torch.no_grad():
            positions.weight[config.tokens - config.patches :] = grid_positions(*config.grid, config.dim)
    return positions
