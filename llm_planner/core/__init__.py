"""What are we talking about: the vocabulary that every other folder shares (standard library only)."""
