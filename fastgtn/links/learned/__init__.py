"""Learned link models: two encoders and a decoder."""
