"""Layers and models for PyTorch Geometric: dictionaries of tensors in, dictionaries of tensors out."""
