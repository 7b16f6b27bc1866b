#include "src/comm/mpi_reduction.h"

#include <algorithm>
#include <type_traits>

#include "common/group.h"
#include "src/device/convert.h"
#include "src/device/dtype_visit.h"

namespace tt {
namespace {

template <class T>
inline constexpr bool is_narrow = requires(T x) {
  x.bits;
};

template <class T, ReduceOp op>
void combine(void* in, void* inout, int* length, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i) {
    const float x = to_float(a[i]), y = to_float(b[i]);
    if constexpr (op == ReduceOp::sum) b[i] = from_float<T>(x + y);
    if constexpr (op == ReduceOp::prod) b[i] = from_float<T>(x * y);
    // A NaN on either side stays: neither comparison holds, and the sum of the two is NaN.
    if constexpr (op == ReduceOp::max) b[i] = x > y ? a[i] : x <= y ? b[i] : from_float<T>(x + y);
    if constexpr (op == ReduceOp::min) b[i] = x < y ? a[i] : x >= y ? b[i] : from_float<T>(x + y);
  }
}

template <class T>
MPI_User_function* function_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return combine<T, ReduceOp::prod>;
    case ReduceOp::max:
      return combine<T, ReduceOp::max>;
    case ReduceOp::min:
      return combine<T, ReduceOp::min>;
    default:
      return combine<T, ReduceOp::sum>;
  }
}

MPI_Op native_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return MPI_PROD;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    default:
      return MPI_SUM;
  }
}

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::int8:
      return MPI_INT8_T;
    case DType::uint8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return MPI_UINT8_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::uint32:
      return MPI_UINT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint64:
      return MPI_UINT64_T;
    case DType::f16:
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

}  // namespace

MpiReduction::MpiReduction(DType type, ReduceOp op) : type_(mpi_type(type)) {
  with_storage(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (is_narrow<T>) {
      TT_MPI(MPI_Op_create(function_for<T>(op), 1, &op_));
      own_op_ = true;
    } else {
      op_ = native_op(op);
    }
  });
}

MpiReduction::~MpiReduction() {
  if (own_op_) MPI_Op_free(&op_);
}

void divide_elements(void* data, size_t count, DType type, int ranks) {
  with_storage(type, [&]<class T>(std::type_identity<T>) {
    T* x = static_cast<T*>(data);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (is_narrow<T>)
        x[i] = from_float<T>(to_float(x[i]) / static_cast<float>(ranks));
      else
        x[i] = static_cast<T>(x[i] / static_cast<T>(ranks));
    }
  });
}

void multiply_elements(void* to, const void* from, size_t count, DType type, int scalar) {
  with_storage(type, [&]<class T>(std::type_identity<T>) {
    const T* in = static_cast<const T*>(from);
    T* out = static_cast<T*>(to);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (is_narrow<T>)
        out[i] = from_float<T>(to_float(in[i]) * static_cast<float>(scalar));
      else
        out[i] = static_cast<T>(in[i] * static_cast<T>(scalar));
    }
  });
}

}  // namespace tt
