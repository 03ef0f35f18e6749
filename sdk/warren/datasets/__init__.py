"""Data sets at a gateway: uploaded, listed, read and downloaded."""
