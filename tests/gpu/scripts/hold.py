"""``hold.py BYTES``: hold so much of the first GPU until standard input is closed."""

import sys

import cuda_driver

cuda_driver.use_first_gpu()
try:
    cuda_driver.hold(int(sys.argv[1]))
except RuntimeError as error:
    print(error, flush=True)
    raise SystemExit(1) from None
print("holds", flush=True)
sys.stdin.read()
