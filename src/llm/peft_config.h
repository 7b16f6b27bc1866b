// adapter_config.json of a PEFT adapter: which modules of a model it is on, with which ranks and scales.
#pragma once

#include <string>

#include "src/llm/peft.h"

namespace tt {

/// Everything of the Adapter but its tensors, for a model of `layers` layers. See read_adapter().
Adapter parse_adapter_config(const std::string& text, const std::string& file, int64_t layers);

}  // namespace tt
