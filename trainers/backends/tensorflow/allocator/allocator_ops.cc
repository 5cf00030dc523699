// What TensorFlow's own allocator says of itself, from inside the process.
//
// BFCAllocator is the allocator of GPUs, and of CPUs under TF_CPU_ALLOCATOR_USE_BFC=1.
// Its map lists every chunk; nothing in Python reaches it. Each of these operations is
// to be called between steps, never inside of one. Another allocator (a plain CPU's,
// cuda_malloc_async) is an answer, not an error: then there is no map.

#include <algorithm>
#include <cstdint>
#include <string>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/protobuf/bfc_memory_map.pb.h"
#if __has_include("xla/tsl/framework/bfc_allocator.h")
#include "xla/tsl/framework/bfc_allocator.h"
#else  // TensorFlow 2.17 and older
#include "tsl/framework/bfc_allocator.h"
#endif

namespace trainwarden {

using tensorflow::Allocator;
using tensorflow::AllocatorAttributes;
using tensorflow::DEVICE_CPU;
using tensorflow::DEVICE_GPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

Allocator* AllocatorOf(OpKernelContext* context) {
  return context->device()->GetAllocator(AllocatorAttributes());
}

// Figures, in this order (native.py knows it): whether there is a map, chunks, limit,
// pool, in use, largest free, peak, largest request, requests. -1: not known. Peak and
// the last two count from when the statistics were last cleared.
constexpr int kFigures = 9;

class FiguresOp : public OpKernel {
 public:
  explicit FiguresOp(OpKernelConstruction* construction)
      : OpKernel(construction) {}

  void Compute(OpKernelContext* context) override {
    int64_t found[kFigures];
    std::fill(found, found + kFigures, -1);
    Allocator* allocator = AllocatorOf(context);
    found[0] = ReadMap(allocator, found);
    ReadStatistics(allocator, found);
    // Only now: the map must not show the answer itself.
    Tensor* figures = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({kFigures}),
                                                     &figures));
    std::copy(found, found + kFigures, figures->flat<int64_t>().data());
  }

 private:
  static bool ReadMap(Allocator* allocator, int64_t* found) {
    auto* bfc = dynamic_cast<tsl::BFCAllocator*>(allocator);
    if (bfc == nullptr) return false;
    const tensorflow::MemoryDump map = bfc->RecordMemoryMap();
    int64_t used = 0, unused = 0, largest = 0;
    for (const auto& chunk : map.chunk()) {
      if (chunk.in_use()) {
        used += chunk.size();
      } else {
        unused += chunk.size();
        largest = std::max<int64_t>(largest, chunk.size());
      }
    }
    found[1] = map.chunk_size();
    found[3] = used + unused;
    found[4] = used;
    found[5] = largest;
    return true;
  }

  static void ReadStatistics(Allocator* allocator, int64_t* found) {
    const auto statistics = allocator->GetStats();
    if (!statistics.has_value()) return;
    found[2] = statistics->bytes_limit.value_or(-1);
    if (found[4] < 0) found[4] = statistics->bytes_in_use;
    found[6] = statistics->peak_bytes_in_use;
    found[7] = statistics->largest_alloc_size;
    found[8] = statistics->num_allocs;
  }
};

class MapOp : public OpKernel {
 public:
  explicit MapOp(OpKernelConstruction* construction) : OpKernel(construction) {}

  void Compute(OpKernelContext* context) override {
    std::string serialised;
    auto* bfc = dynamic_cast<tsl::BFCAllocator*>(AllocatorOf(context));
    if (bfc != nullptr) bfc->RecordMemoryMap().SerializeToString(&serialised);
    Tensor* map = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &map));
    map->scalar<tensorflow::tstring>()() = serialised;
  }
};

// Where a tensor's values lie: which chunk is whose.
class AddressOp : public OpKernel {
 public:
  explicit AddressOp(OpKernelConstruction* construction)
      : OpKernel(construction) {}

  void Compute(OpKernelContext* context) override {
    const auto data = context->input(0).tensor_data();
    Tensor* address = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({2}), &address));
    auto values = address->flat<int64_t>();
    values(0) = reinterpret_cast<int64_t>(data.data());
    values(1) = static_cast<int64_t>(data.size());
  }
};

REGISTER_OP("TrainwardenAllocatorFigures")
    .Output("figures: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);
REGISTER_KERNEL_BUILDER(Name("TrainwardenAllocatorFigures").Device(DEVICE_CPU),
                        FiguresOp);
REGISTER_KERNEL_BUILDER(Name("TrainwardenAllocatorFigures")
                            .Device(DEVICE_GPU)
                            .HostMemory("figures"),
                        FiguresOp);

REGISTER_OP("TrainwardenAllocatorMap")
    .Output("map: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);
REGISTER_KERNEL_BUILDER(Name("TrainwardenAllocatorMap").Device(DEVICE_CPU), MapOp);
REGISTER_KERNEL_BUILDER(
    Name("TrainwardenAllocatorMap").Device(DEVICE_GPU).HostMemory("map"), MapOp);

REGISTER_OP("TrainwardenTensorAddress")
    .Input("tensor: T")
    .Output("address: int64")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);
REGISTER_KERNEL_BUILDER(Name("TrainwardenTensorAddress").Device(DEVICE_CPU),
                        AddressOp);
REGISTER_KERNEL_BUILDER(Name("TrainwardenTensorAddress")
                            .Device(DEVICE_GPU)
                            .HostMemory("address"),
                        AddressOp);

}  // namespace trainwarden
