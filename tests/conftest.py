"""Settings that every test shares."""

import os

os.environ["TQDM_DISABLE"] = "1"  # read by tqdm when it is imported: no progress bars in tests
