"""The model that is trained, in PyTorch: feature layer, head, loss, optimizer and scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from mien.core.arrays import Float32s, Floats, Ints
from mien.encoding.network import Device
from mien.training.cut import CutNetwork, FeatureLayer, Norm
from mien.training.presets import Preset

EPSILON = 1e-5  # of a batch norm that the base network lacks


def class_weights(class_of_row: Ints, classes: int, least: float) -> Floats:
    """Weights of the classes, in their order: 1 for the rarest class, near `least` for a very frequent one.

    >>> class_weights(np.array([0, 0, 0, 0, 1, 1]), 2, 0.5).tolist()
    [0.75, 1.0]
    """
    counts = np.bincount(class_of_row, minlength=classes)
    weights: Floats = least + (1 - least) * counts.min() / counts
    return weights


@dataclass(eq=False)
class TrainableModel:
    """The layers that are trained, with loss, optimizer and scheduler."""

    features: Any  # linear, batch norm
    head: Any  # dropout, linear
    loss: Any
    optimizer: Any
    scheduler: Any
    device: Device

    @classmethod
    def begin(
        cls, layer: FeatureLayer, classes: int, weights: Floats, preset: Preset, device: Device = "cpu"
    ) -> TrainableModel:
        """Starts with the feature layer of the base network and a random head."""
        dimensions, inputs = layer.weight.shape
        features = nn.Sequential(nn.Linear(inputs, dimensions), nn.BatchNorm1d(dimensions, eps=layer.norm.epsilon))
        gamma, beta, mean, variance, _ = layer.norm
        linear = {"0.weight": layer.weight, "0.bias": layer.bias}
        norm = {"1.weight": gamma, "1.bias": beta, "1.running_mean": mean, "1.running_var": variance}
        tensors = {name: torch.tensor(array) for name, array in (linear | norm).items()}
        features.load_state_dict(tensors, strict=False)  # there is no count of batches to load
        head = nn.Sequential(nn.Dropout(preset.dropout), nn.Linear(dimensions, classes))
        features, head = features.to(device), head.to(device)  # made on the processor: the same on any device
        groups = [
            {"params": features.parameters(), "lr": preset.feature_rate, "weight_decay": preset.feature_decay},
            {"params": head.parameters(), "lr": preset.head_rate, "weight_decay": preset.head_decay},
        ]
        optimizer = torch.optim.Adam(groups)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer,
            mode="max",
            factor=preset.factor,
            patience=preset.patience,
            threshold=preset.threshold,
            min_lr=preset.least_rate,
        )
        loss = nn.CrossEntropyLoss(weight=torch.tensor(weights, dtype=torch.float32)).to(device)
        return cls(features, head, loss, optimizer, scheduler, device)

    def learn(self, activations: Float32s, class_of_row: Ints) -> float:
        """Makes one training step; returns the loss before it."""
        self.features.train()
        self.head.train()
        self.optimizer.zero_grad()
        scores = self.head(self.features(torch.from_numpy(activations).to(self.device)))
        loss = self.loss(scores, torch.from_numpy(class_of_row).to(self.device))
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def scores(self, activations: Float32s) -> Float32s:
        """The head's scores (images, classes), without dropout and with the running statistics."""
        self.features.eval()
        self.head.eval()
        with torch.no_grad():
            scores: Float32s = self.head(self.features(torch.from_numpy(activations).to(self.device))).cpu().numpy()
        return scores

    @property
    def layer(self) -> FeatureLayer:
        """The feature layer as it is now."""
        linear, norm = self.features
        parts = (linear.weight, linear.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        weight, bias, gamma, beta, mean, variance = (part.detach().cpu().numpy().copy() for part in parts)
        return FeatureLayer(weight, bias, Norm(gamma, beta, mean, variance, norm.eps))

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on."""
        parts = {"features": self.features, "head": self.head, "optimizer": self.optimizer, "scheduler": self.scheduler}
        return {name: part.state_dict() for name, part in parts.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        for name in ("features", "head", "optimizer", "scheduler"):
            getattr(self, name).load_state_dict(state[name])


def first_layer(network: CutNetwork, activations: Float32s) -> FeatureLayer:
    """The base network's last layer with a batch norm.

    If the base network has no norm, a new one gets the statistics of these activations, and a scale that undoes it.
    So embeddings stay the same at first, and training sees normalised values.
    """
    if network.norm is not None:
        return FeatureLayer(network.weight, network.bias, network.norm)
    linear = activations @ network.weight.T + network.bias
    mean, variance = linear.mean(axis=0), linear.var(axis=0)
    norm = Norm(np.sqrt(variance + np.float32(EPSILON)), mean, mean, variance, EPSILON)
    return FeatureLayer(network.weight, network.bias, norm)
