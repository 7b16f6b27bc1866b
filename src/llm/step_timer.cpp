#include "src/llm/step_timer.h"

namespace tt {

const char* name_of(Phase phase) noexcept {
  constexpr const char* names[kPhases] = {"forward",  "head",    "backward", "recompute",
                                          "exchange", "exposed", "optimizer"};
  return names[static_cast<int>(phase)];
}

StepTimer::StepTimer(Device& device, int64_t steps) : device_(device), steps_(static_cast<size_t>(steps)) {}

void StepTimer::start_step(int64_t i) {
  current_ = static_cast<size_t>(i) % steps_.size();
  steps_[current_].used = 0;
}

StepTimer::Scope::Scope(StepTimer& timer, Phase phase, Stream& stream)
    : timer_(timer), stream_(stream), slot_(timer.current_), index_(timer.steps_[timer.current_].used++) {
  Step& step = timer_.steps_[slot_];
  if (index_ == step.intervals.size())
    step.intervals.push_back({phase, timer_.device_.make_event(), timer_.device_.make_event()});
  step.intervals[index_].phase = phase;
  step.intervals[index_].begin->record(stream_);
}

StepTimer::Scope::~Scope() noexcept(false) {
  timer_.steps_[slot_].intervals[index_].end->record(stream_);
}

double StepTimer::seconds(int64_t i, Phase phase) const {
  const Step& step = steps_[static_cast<size_t>(i) % steps_.size()];
  double sum = 0;
  for (size_t j = 0; j < step.used; ++j)
    if (step.intervals[j].phase == phase)
      sum += step.intervals[j].end->seconds_since(*step.intervals[j].begin);
  return sum;
}

}  // namespace tt
