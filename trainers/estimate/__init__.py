"""The estimate of what training needs: some steps of the first ``fit``, and no training."""
