"""Shared kernels of the book: each is written once here, explained in a chapter, proved by a test."""
