"""Fault once, and print the driver's code of it."""

import cuda_driver

cuda_driver.use_first_gpu()
print(cuda_driver.fault(), flush=True)
