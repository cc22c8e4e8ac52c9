"""Loss scaling for float16 on several replicas."""

from typing import Any


def scaling_loss(tf: Any, optimizer: Any) -> Any:
    """Keras' LossScaleOptimizer that skips a step when any replica's gradients overflow.

    Keras 3.15 asks the first replica alone and else applies the infinite sum, after which all weights are lost.
    """
    import keras

    class AnyReplica(keras.optimizers.LossScaleOptimizer):
        def check_finite(self, grads: list[Any]) -> Any:
            overflows = tf.cast(tf.logical_not(super().check_finite(grads)), tf.float32)
            return tf.equal(tf.distribute.get_replica_context().all_reduce("SUM", overflows), 0.0)

    return AnyReplica(optimizer)
