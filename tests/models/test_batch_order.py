"""Batches: every example once an epoch, seeded, the same on every backend."""

import numpy as np

from whichdevice.models.batch_order import Permutations, RandomDraws


def test_an_epoch_holds_every_example_at_most_once_and_drops_only_the_tail():
    epoch = Permutations(examples=103, batch_size=10, seed=1).take(10)
    assert epoch.shape == (10, 10)
    assert len(np.unique(epoch)) == 100
    assert epoch.max() <= 102


def test_epochs_differ_and_small_takes_join_to_the_same_sequence():
    whole = Permutations(50, 10, seed=3).take(12)
    order = Permutations(50, 10, seed=3)
    pieces = np.concatenate([order.take(1), order.take(7), order.take(4)])
    np.testing.assert_array_equal(whole, pieces)
    assert not np.array_equal(whole[:5], whole[5:10])


def test_the_seed_decides():
    np.testing.assert_array_equal(RandomDraws(99, 4, seed=2).take(3), RandomDraws(99, 4, seed=2).take(3))
    assert not np.array_equal(Permutations(99, 4, seed=2).take(3), Permutations(99, 4, seed=5).take(3))
