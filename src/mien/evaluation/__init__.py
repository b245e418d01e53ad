"""The protocol: folds, ranks, accuracy, bootstrap, and the experiments of the paper."""
