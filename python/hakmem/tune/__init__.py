"""Which settings suit a program best: duels between arms, rated, until the leader is clear."""
