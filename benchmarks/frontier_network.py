"""The opponent: a network of two layers, trained on the pooled samples by gradient descent."""

from __future__ import annotations

import numpy as np

from benchmarks.data import Dataset

UNITS, EPOCHS, BATCH = 1_024, 12, 256
RATE, DECAY, SMOOTHING = 2e-3, 1e-2, 0.1
DROPOUTS = (0.2, 0.5)
"""Of the features, and of the units."""


def train_network(dataset: Dataset, seed: int) -> float:
    """Test accuracy, on standardised square roots of the features as safle's encoders have them."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    roots = [np.sign(part) * np.sqrt(np.abs(part)) for part in (dataset.train, dataset.test)]
    mean, deviation = roots[0].mean(axis=0), roots[0].std(axis=0) + 1e-6
    train, test = (torch.from_numpy((part - mean) / deviation) for part in roots)
    classes, labels = np.unique(dataset.train_labels, return_inverse=True)
    target = torch.from_numpy(labels)
    network = nn.Sequential(
        nn.Dropout(DROPOUTS[0]),
        nn.Linear(train.shape[1], UNITS),
        nn.BatchNorm1d(UNITS),
        nn.ReLU(),
        nn.Dropout(DROPOUTS[1]),
        nn.Linear(UNITS, len(classes)),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    steps = len(train) // BATCH * EPOCHS
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=max(steps, 1))
    loss = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    for _ in range(EPOCHS):
        order = torch.randperm(len(train))
        for first in range(0, len(train) // BATCH * BATCH, BATCH):
            some = order[first : first + BATCH]
            optimiser.zero_grad()
            loss(network(train[some]), target[some]).backward()
            optimiser.step()
            rates.step()
    network.eval()
    with torch.no_grad():
        predicted = network(test).argmax(dim=1).numpy()
    return float((classes[predicted] == dataset.test_labels).mean())
