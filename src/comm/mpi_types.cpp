#include "src/comm/mpi_types.h"

#include <climits>

#include "common/group.h"

namespace tt {
namespace {

constexpr size_t kUnit = size_t{1} << 20;

/// blocks of 1 MiB and then `rest` bytes.
MPI_Datatype make_type(size_t bytes) {
  const size_t blocks = bytes / kUnit, rest = bytes % kUnit;
  MPI_Datatype unit = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL, result = MPI_DATATYPE_NULL;
  TT_MPI(MPI_Type_contiguous(static_cast<int>(kUnit), MPI_BYTE, &unit));
  TT_MPI(MPI_Type_contiguous(static_cast<int>(blocks), unit, &whole));
  int lengths[2] = {1, static_cast<int>(rest)};
  MPI_Aint places[2] = {0, static_cast<MPI_Aint>(blocks * kUnit)};
  MPI_Datatype parts[2] = {whole, MPI_BYTE};
  TT_MPI(MPI_Type_create_struct(rest ? 2 : 1, lengths, places, parts, &result));
  TT_MPI(MPI_Type_commit(&result));
  MPI_Type_free(&whole);
  MPI_Type_free(&unit);
  return result;
}

}  // namespace

ByteSpan ByteTypes::span(size_t bytes) {
  if (bytes <= static_cast<size_t>(INT_MAX)) return {MPI_BYTE, static_cast<int>(bytes)};
  auto [place, is_new] = types_.try_emplace(bytes, MPI_DATATYPE_NULL);
  if (is_new) place->second = make_type(bytes);
  return {place->second, 1};
}

ByteTypes::~ByteTypes() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  for (auto& [bytes, type] : types_)
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
}

}  // namespace tt
