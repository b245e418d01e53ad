"""One reader or writer per foreign format; `storage/loading.py` recognises an encodings file by its content."""
