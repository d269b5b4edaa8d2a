"""Masked autoencoder: hide most patches of an image, read the rest, and fill in what is hidden."""

import torch
from torch import Generator, Tensor, nn

from lib.checks import check_at_least
from lib.transformer import Encoder
from lib.vit.model import ViT, ViTConfig, check_visible, grid_positions
from lib.vit.patches import unpatchify


def random_masking(n: int, patches: int, ratio: float = 0.75, *, generator: Generator) -> Tensor:
    """Draw for each image which patches stay visible; a `ratio` of them, rounded, is masked.

    Args:
        n: number of images.
        patches: number of patches of an image.
        ratio: share of patches to mask, within 0 … 1; at least one patch is masked and one stays.
        generator: source of the random draws.

    Returns:
        (n, visible) indices of the visible patches, increasing; `ids_keep` of the paper's code, sorted.

    Raises:
        ValueError: nothing would be masked, or nothing stay visible, or `n` is negative.

    Source: He et al. 2022, §3.

    >>> random_masking(2, 16, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([2, 4])
    """
    check_at_least(0, n=n)
    if not 0 <= ratio <= 1 or not 0 < (masked := round(ratio * patches)) < patches:
        raise ValueError(f"ratio must mask some of the patches and keep some, got {ratio} of {patches}")
    order = torch.rand(n, patches, generator=generator).argsort(-1)  # (n, patches)
    return order[:, masked:].sort(-1).values


class MaskedAutoencoder(nn.Module):
    """Read the visible patches with a ViT, then predict the pixels of all patches with a small decoder.

        z = Encoder(visible patches)        x̂ = Decoder([W z; a mask token for each masked patch] + E_dec)

    E_dec is sinusoidal and fixed.

    Args:
        config: of the encoder; its `classes` are for later use.
        dim: width of the decoder's tokens, even.
        layers: number of the decoder's blocks.
        heads: number of heads in the decoder.

    Source: He et al. 2022, figure 1.

    >>> config = ViTConfig(image_size=8, patch_size=2, channels=1, dim=16, layers=2, heads=2, classes=10)
    >>> visible = random_masking(5, config.patches, generator=torch.Generator().manual_seed(0))
    >>> MaskedAutoencoder(config, dim=8, layers=1, heads=2)(torch.zeros(5, 1, 8, 8), visible).shape
    torch.Size([5, 1, 8, 8])
    """

    def __init__(self, config: ViTConfig, *, dim: int, layers: int, heads: int) -> None:
        super().__init__()
        self.encoder = ViT(config)
        self.decoder_embed = nn.Linear(config.dim, dim)
        self.mask_token = nn.Parameter(torch.zeros(dim))
        self.decoder_positions: Tensor
        # Part of the state dict: a model made without values gets all of them from there.
        self.register_buffer("decoder_positions", grid_positions(*config.grid, dim))
        self.decoder = Encoder(dim, heads, layers)
        self.decoder_pred = nn.Linear(dim, config.channels * config.patch_size**2)

    def forward(self, images: Tensor, visible: Tensor) -> Tensor:
        """Predict images (batch, channels, height, width) from their patches with the indices `visible` (batch, k)."""
        config = self.encoder.config
        tokens, _ = self.encoder.encode(images, visible=visible)
        patches = self.decoder_embed(tokens[:, config.tokens - config.patches :])  # (batch, k, decoder dim)
        # A row for each patch: the mask token everywhere, and over it what is visible at its place.
        rows = self.mask_token.to(patches.dtype).expand(images.shape[0], config.patches, -1)
        rows = rows.scatter(1, visible[..., None].expand_as(patches), patches)  # (batch, patches, decoder dim)
        decoded, _ = self.decoder(rows + self.decoder_positions)
        return unpatchify(self.decoder_pred(decoded), config.patch_size, config.shape)


def masked_pixels(visible: Tensor, config: ViTConfig) -> Tensor:
    """Return where images are masked: boolean (batch, 1, height, width), `True` outside the patches `visible`.

    Raises:
        ValueError: `visible` (batch, k) are not indices of different patches.

    >>> config = ViTConfig(image_size=4, patch_size=2, channels=3, dim=8, layers=1, heads=1, classes=2)
    >>> masked_pixels(torch.tensor([[1]]), config)[0, 0].int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 1],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    check_visible(visible, config.patches)
    everywhere = torch.ones(visible.shape[0], config.patches, dtype=torch.bool, device=visible.device)
    masked = everywhere.scatter(1, visible, False)[..., None]  # (batch, patches, 1)
    return unpatchify(masked.expand(-1, -1, config.patch_size**2), config.patch_size, config.shape)


def reconstruction_loss(model: MaskedAutoencoder, images: Tensor, visible: Tensor) -> Tensor:
    """Return the mean squared error over the masked pixels, in single precision or better.

        L = 1/|M| Σ (x̂ − x)²        over the set M of masked pixels, channel by channel

    Images are (batch, channels, height, width), `visible` (batch, k). Raises ValueError where no pixel is masked.

    Source: He et al. 2022, §3.
    """
    config = model.encoder.config
    predicted = model(images, visible)
    if images.shape[0] == 0 or visible.shape[1] == config.patches:
        raise ValueError(f"visible must leave some patch of some image masked, got {tuple(visible.shape)}")
    wide = torch.promote_types(torch.promote_types(predicted.dtype, images.dtype), torch.float32)
    masked = masked_pixels(visible, config)
    error = (predicted.to(wide) - images.to(wide)).masked_fill(~masked, 0.0)
    return error.square().sum() / (masked.sum() * config.channels)
