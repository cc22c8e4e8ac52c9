"""Blocks of layers."""
