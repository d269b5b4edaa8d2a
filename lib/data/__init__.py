"""Small data sets, drawn from an explicit generator: the same seed gives the same data."""

from lib.data.curves import noisy_curve, true_curve
from lib.data.dates import DATE_ALPHABET, DATE_FORMS, date_batch, dates, decode_text, encode_text
from lib.data.digits import reversed_digits
from lib.data.experiments import RunningExample, results, running_example
from lib.data.images import bright_block, digit_images, photo_crops
from lib.data.poems import Poem, poems, poems_by_heart
from lib.data.tactile import TactileBatch, tactile_batches

__all__ = [
    "DATE_ALPHABET",
    "DATE_FORMS",
    "Poem",
    "RunningExample",
    "TactileBatch",
    "bright_block",
    "date_batch",
    "dates",
    "decode_text",
    "digit_images",
    "encode_text",
    "noisy_curve",
    "photo_crops",
    "poems",
    "poems_by_heart",
    "results",
    "reversed_digits",
    "running_example",
    "tactile_batches",
    "true_curve",
]
