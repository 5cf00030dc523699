"""``Model.fit`` and custom loops under supervision."""
