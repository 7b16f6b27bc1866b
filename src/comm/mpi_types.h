// An MPI datatype of any number of bytes: MPI counts are int.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <map>

namespace tt {

/// A datatype and how many of it make the bytes asked for.
struct ByteSpan {
  MPI_Datatype type;
  int count;
};

/// Makes and keeps the derived types of one communicator.
class ByteTypes {
 public:
  ByteTypes() = default;
  ~ByteTypes();
  ByteTypes(const ByteTypes&) = delete;
  ByteTypes& operator=(const ByteTypes&) = delete;
  /// Up to 2^31 - 1 bytes: that many MPI_BYTE. Beyond: one element of a contiguous type of exactly that size
  /// and extent, so that block r of a gather still starts at r times the size.
  ByteSpan span(size_t bytes);

 private:
  std::map<size_t, MPI_Datatype> types_;
};

}  // namespace tt
