"""Settings that every test shares."""

import os

from hypothesis import settings

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
os.environ["OMP_NUM_THREADS"] = "1"  # as in the build: small tensors, and sums in the same order anywhere

# The same examples each time, and none too slow on a busy machine.
settings.register_profile("book", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("book")
