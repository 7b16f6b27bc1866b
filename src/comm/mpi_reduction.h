// Reductions that MPI has no operation for: half, bfloat16 and the 8-bit floating-point types on their bits;
// and what avg and mulsum do before and after the sum.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "common/dtype.h"
#include "src/comm/comm.h"

namespace tt {

/// The operations of one communicator. avg and mulsum are sums to MPI. Narrow floating-point types are
/// combined in float and rounded back, one pair at a time.
class MpiReduction {
 public:
  MpiReduction(DType type, ReduceOp op);  // throws LibraryError
  ~MpiReduction();
  MpiReduction(const MpiReduction&) = delete;
  MpiReduction& operator=(const MpiReduction&) = delete;
  MPI_Datatype type() const { return type_; }
  MPI_Op op() const { return op_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  bool own_op_ = false;
};

/// avg: each of `count` elements divided by `ranks`; integers towards zero, narrow types in float.
void divide_elements(void* data, size_t count, DType type, int ranks);
/// mulsum: to[i] = from[i] * scalar (to may be from).
void multiply_elements(void* to, const void* from, size_t count, DType type, int scalar);

}  // namespace tt
