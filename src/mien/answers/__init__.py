"""What an answer says: ranked disorders, how sure they are, their genes, their photos, and what HPO terms add."""
