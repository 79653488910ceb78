"""Models and how they score text: tokens, trees, exact search, masked scores, vectors, servers."""
