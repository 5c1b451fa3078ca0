"""Tests in a real browser. A package, so that its files may be named like those beside it (``test_masks.py``)."""
