"""Set before torch is loaded: models in tests are so small that threads only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
