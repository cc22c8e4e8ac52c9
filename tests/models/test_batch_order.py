"""Batches: every example once an epoch, seeded, the same on every backend."""

import numpy as np

from whichdevice.models.batch_order import Permutations


def test_an_epoch_holds_every_example_at_most_once_and_drops_only_the_tail():
    epoch = Permutations(examples=103, batch_size=10, seed=1).take(10)
    assert epoch.shape == (10, 10)
    assert len(np.unique(epoch)) == 100
    assert epoch.max() <= 102
