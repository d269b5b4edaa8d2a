"""Masked autoencoder: hide most patches of an image, read the rest, and fill in what is hidden."""

import torch
from torch import Generator, Tensor, nn

from lib.transformer import Encoder
from lib.vit.model import ViT, ViTConfig, grid_positions
from lib.vit.patches import unpatchify


def random_kept(n: int, patches: int, ratio: float = 0.75, *, generator: Generator) -> Tensor:
    """Draw for each image which patches stay visible; a `ratio` of them, rounded, is hidden.

    Args:
        n: number of images.
        patches: number of patches of an image.
        ratio: share of patches to hide, within 0 … 1; at least one patch stays and one is hidden.
        generator: source of the random draws.

    Returns:
        (n, kept) places of the visible patches, increasing.

    Raises:
        ValueError: nothing would be hidden, or nothing kept.

    Source: He et al. 2022, §3.

    >>> random_kept(2, 16, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4])
    """
    hidden = round(ratio * patches)
    if not 0 < hidden < patches:
        raise ValueError(f"ratio must hide some of the patches and keep some, got {ratio} of {patches}")
    order = torch.rand(n, patches, generator=generator).argsort(-1)
    return order[:, hidden:].sort(-1).values


class MaskedAutoencoder(nn.Module):
    """Read the visible patches with a ViT, then predict the pixels of all patches with a small decoder.

        z = Encoder(visible patches)        x̂ = Decoder([z; one learned vector for each hidden patch] + E_dec)

    The encoder never sees a hidden patch nor a place holder for it: at a ratio of 0.75 it reads a quarter of the
    tokens. After training it is kept, as `encoder`, and the decoder is thrown away. E_dec is sinusoidal and fixed.

    Args:
        config: of the encoder; its `classes` are for later use.
        dim: width of the decoder's tokens, even.
        layers: number of the decoder's blocks.
        heads: number of heads in the decoder.

    Source: He et al. 2022, figure 1.

    >>> config = ViTConfig(image_size=8, patch_size=2, channels=1, dim=16, layers=2, heads=2, classes=10)
    >>> kept = random_kept(5, config.patches, generator=torch.Generator().manual_seed(0))
    >>> MaskedAutoencoder(config, dim=8, layers=1, heads=2)(torch.zeros(5, 1, 8, 8), kept).shape
    torch.Size([5, 1, 8, 8])
    """

    def __init__(self, config: ViTConfig, *, dim: int, layers: int, heads: int) -> None:
        super().__init__()
        self.encoder = ViT(config)
        self.narrow = nn.Linear(config.dim, dim)
        self.hidden = nn.Parameter(torch.zeros(dim))
        self.positions: Tensor
        self.register_buffer("positions", grid_positions(*config.grid, dim), persistent=False)
        self.decoder = Encoder(dim, heads, layers)
        self.to_pixels = nn.Linear(dim, config.channels * config.patch_size**2)

    def forward(self, images: Tensor, kept: Tensor) -> Tensor:
        """Predict images (batch, channels, height, width) from the patches `kept` (batch, k) of them."""
        config = self.encoder.config
        tokens, _ = self.encoder.encode(images, kept=kept)
        visible = self.narrow(tokens[:, config.tokens - config.patches :])
        places = kept[..., None].expand_as(visible)
        # One row a patch: the learned vector everywhere, and over it what is visible at its place.
        canvas = self.hidden.expand(len(images), config.patches, -1).scatter(1, places, visible)
        decoded, _ = self.decoder(canvas + self.positions)
        return unpatchify(self.to_pixels(decoded), config.patch_size, config.shape)


def hidden_pixels(kept: Tensor, config: ViTConfig) -> Tensor:
    """Return where an image is hidden: boolean (batch, 1, height, width), `True` outside the patches `kept`.

    >>> config = ViTConfig(image_size=4, patch_size=2, channels=3, dim=8, layers=1, heads=1, classes=2)
    >>> hidden_pixels(torch.tensor([[1]]), config)[0, 0].int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 1],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    hidden = torch.ones(len(kept), config.patches, dtype=torch.bool, device=kept.device).scatter(1, kept, False)
    return unpatchify(hidden[..., None].expand(-1, -1, config.patch_size**2), config.patch_size, config.shape)


def reconstruction_loss(model: MaskedAutoencoder, images: Tensor, kept: Tensor) -> Tensor:
    """Return the mean squared error over hidden pixels; what the encoder has seen does not count.

    Source: He et al. 2022, §3.
    """
    squared = (model(images, kept) - images).square()
    return squared[hidden_pixels(kept, model.encoder.config).expand_as(squared)].mean()
