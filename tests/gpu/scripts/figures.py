"""What the allocator of JAX or PyTorch tells of itself. Prints JSON."""

import json
import os
import sys
import time
from dataclasses import asdict

MIB = 2**20


def read(reader):
    """What our own reading makes of it, and how long it takes."""
    took = {"read": [], "counts": []}
    for _ in range(200):
        for name, seconds in took.items():
            began = time.perf_counter()
            getattr(reader, name)()
            seconds.append(time.perf_counter() - began)
    found = reader.read()
    return {
        "figures": found and asdict(found),
        "fragmentation": found and found.fragmentation,
        "largest_allocatable": found and found.largest_allocatable,
        **{f"{name}_seconds": sorted(some)[100] for name, some in took.items()},
    }


def of_jax():
    import jax
    import jax.numpy as jnp

    from trainers.backends.jax.jax_memory import JaxReader

    device = jax.devices()[0]
    kept = [jnp.zeros([4 * MIB], jnp.float32) for _ in range(40)]
    full = device.memory_stats()
    kept = kept[::2]
    holes = device.memory_stats()
    ours = read(JaxReader(device))
    try:
        jnp.zeros([64 * 1024 * MIB], jnp.float32).block_until_ready()
        failed = ""
    except Exception as error:
        failed = f"{type(error).__module__}.{type(error).__name__}: {error}"[:1500]
    step = jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x)).lower(jnp.zeros([2048, 2048]))
    planned = step.compile().memory_analysis()
    return {
        "version": jax.__version__,
        "device": device.device_kind,
        "full": full,
        "holes": holes,
        "failed": failed,
        "planned": str(planned),
        "ours": ours,
        "kept": len(kept),
    }


def of_torch():
    import torch

    from trainers.backends.torch.torch_memory import TorchReader

    kept = [torch.zeros([4 * MIB], device="cuda") for _ in range(40)]
    full = torch.cuda.memory_stats()
    kept = kept[::2]
    holes = torch.cuda.memory_stats()
    ours = read(TorchReader(torch.cuda, None))
    segments = torch.cuda.memory_snapshot()
    try:
        torch.zeros([64 * 1024 * MIB], device="cuda")
        failed = ""
    except Exception as error:
        failed = f"{type(error).__module__}.{type(error).__name__}: {error}"[:1500]
    return {
        "version": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "full": full,
        "holes": holes,
        "failed": failed,
        "segments": len(segments),
        "segment": {key: str(value)[:200] for key, value in segments[-1].items()},
        "mem_get_info": torch.cuda.mem_get_info(),
        "fraction": torch.cuda.get_per_process_memory_fraction()
        if hasattr(torch.cuda, "get_per_process_memory_fraction")
        else None,
        "kept": len(kept),
        "ours": ours,
        "configured": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
    }


print(json.dumps({"jax": of_jax, "torch": of_torch}[sys.argv[1]]()))
