"""Settings that every test shares."""

import os

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the build: small tensors, and sums in the same order anywhere
