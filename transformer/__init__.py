"""A Transformer written from scratch, and all that computes with it. Read ``model.py`` first."""
