"""Set before torch is loaded: models in tests are so small that threads only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("patient", deadline=None)  # how busy a machine is decides no test
settings.load_profile("patient")
