"""The gallery on disk, and the file formats that come in and go out."""
