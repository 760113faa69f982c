"""Graph archives: one file or folder of plain arrays, without pickle."""

from fastgtn.data.archive.file import checksum, content_checksum, read, read_encoding, read_labels, write

__all__ = ["checksum", "content_checksum", "read", "read_encoding", "read_labels", "write"]
