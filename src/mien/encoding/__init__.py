"""Photo bytes -> upright pixels -> face -> aligned crop -> views -> embeddings."""
