"""What all tests share."""

from hypothesis import settings

# a busy machine is no fault of the code's
settings.register_profile("firstlight", deadline=None)
settings.load_profile("firstlight")
