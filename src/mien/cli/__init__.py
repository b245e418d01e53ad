"""Arguments in, one call, text out."""
