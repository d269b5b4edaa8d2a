"""ViT (2.1.3): an image cut into patches, each patch a token, and what is learned from them."""

from lib.vit.mae import MaskedAutoencoder, masked_pixels, random_masking, reconstruction_loss
from lib.vit.model import ViT, ViTConfig, grid_positions
from lib.vit.patches import join_windows, patch_grid, patchify, split_windows, unpatchify

__all__ = [
    "MaskedAutoencoder",
    "ViT",
    "ViTConfig",
    "grid_positions",
    "join_windows",
    "masked_pixels",
    "patch_grid",
    "patchify",
    "random_masking",
    "reconstruction_loss",
    "split_windows",
    "unpatchify",
]
