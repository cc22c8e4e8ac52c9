import tensorflow as tf

judge, maker = tf.Variable(tf.ones((4, 1))), tf.Variable(tf.ones((2, 4)))
data = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)
def loss_of(real):
    return tf.reduce_mean(real @ judge) - tf.reduce_mean(tf.random.normal((8, 2)) @ maker @ judge)
@tf.function
def train_judge(real):
    with tf.GradientTape() as tape:
        loss = loss_of(real)
    judge.assign_sub(0.1 * tape.gradient(loss, judge))
    return loss
@tf.function
def train_maker():
    with tf.GradientTape() as tape:
        loss = -loss_of(tf.ones((8, 4)))
    maker.assign_sub(0.1 * tape.gradient(loss, maker))
    return loss
def both(real):
    return float(train_judge(real)), float(train_maker())
for epoch in range(3):
    for step, real in enumerate(data):
        train_judge(real)
        if step % 2 == 0:
            train_maker()
