// Our types and reductions as NCCL's.
#pragma once

#include <nccl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/dtype.h"
#include "src/comm/comm.h"

namespace tt {

/// Empty for a type that this NCCL does not have.
std::optional<ncclDataType_t> nccl_type(DType type);
/// The built-in operation; mulsum, which is made for each communicator, has none.
std::optional<ncclRedOp_t> nccl_op(ReduceOp op);
/// premul_scalar(rank) as bytes of the type.
std::array<unsigned char, 8> premul_bytes(DType type, int rank);
/// "2.28.9" of the library that is loaded.
std::string nccl_version_text();

/// Throws LibraryError with NCCL's words for the code and its own last error message. `comm` may be null.
void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm);

}  // namespace tt

#define TT_NCCL(call, comm) ::tt::check_nccl((call), #call, (comm))
