"""What an answer says: ranked disorders, how sure they are, their genes, the photos and faces behind them."""
