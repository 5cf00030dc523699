"""What the kernel and the driver below it did to an attempt: Xids, lost GPUs, OOM kills."""
