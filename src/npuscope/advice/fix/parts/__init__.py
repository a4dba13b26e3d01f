"""What several edits share: weights, quantizers, chains of ops, regions of channels."""
