"""TensorFlow Datasets builders of this project; imported only for source `tfds`."""
