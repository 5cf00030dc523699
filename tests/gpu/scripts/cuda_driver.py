"""CUDA's driver, by ctypes: what the checks do to a GPU needs no framework.

Names and signatures are those of NVIDIA's CUDA Driver API.
"""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")

FAULT = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry fault()
{
    .reg .b64 %address;
    .reg .b32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
"""
"""A kernel that writes where nothing is."""


def done(code):
    """Raises RuntimeError with the driver's own word unless ``code`` is CUDA_SUCCESS."""
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError((name.value or b"?").decode())


def use_first_gpu():
    """Make the context that frameworks use, too, that of this thread."""
    context = ctypes.c_void_p()
    done(cuda.cuInit(0))
    done(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    done(cuda.cuCtxSetCurrent(context))


def hold(nbytes):
    """Take so much memory."""
    address = ctypes.c_uint64()
    done(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(nbytes)))


def fault():
    """Fault: from here on, nothing works in this process' context."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    done(cuda.cuModuleLoadData(ctypes.byref(module), FAULT))
    done(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fault"))
    done(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    return cuda.cuCtxSynchronize()
