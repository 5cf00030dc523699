"""``tf.data`` pipelines: sizes, draws, what can be repeated."""
