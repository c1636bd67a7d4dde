"""Bugs to put into kernels, by heading of docs/failures.md: the order of the imports is its."""

from lib.mutations import waiting, memory, sharing, scales  # noqa: F401, I001
