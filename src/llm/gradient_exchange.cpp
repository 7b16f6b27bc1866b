#include "src/llm/gradient_exchange.h"

namespace tt {

GradientExchange::GradientExchange(const TrainContext& context, Parameters& parameters, bool overlap)
    : context_(context),
      parameters_(parameters),
      overlap_(overlap),
      ready_(context.device.make_event()),
      done_(context.device.make_event()) {}

void GradientExchange::unit_ready(int unit) {
  bool recorded = false;
  for (const Bucket& bucket : parameters_.layout().buckets()) {
    if (bucket.ready_unit != unit) continue;
    // Sharded gradients have no place to wait in: their buffer is needed for the unit after the next.
    if (!overlap_ && parameters_.keep_gradients_) {
      waiting_.push_back(&bucket);
      continue;
    }
    Stream& stream = overlap_ ? context_.exchange : context_.compute;
    if (overlap_ && !recorded) {
      ready_->record(context_.compute);
      ready_->hold(stream);
      recorded = true;
    }
    send(bucket, stream);
  }
}

void GradientExchange::send(const Bucket& bucket, Stream& stream) {
  const StepTimer::Scope scope(context_.timer, Phase::exchange, stream);
  float* const whole = parameters_.whole_gradient(bucket);
  float* const own = parameters_.own_gradient(bucket);
  const size_t bytes = static_cast<size_t>(bucket.count) * sizeof(float);
  const auto& buckets = parameters_.layout().buckets();
  if (dropped_ && &bucket == &buckets[static_cast<size_t>(*dropped_) % buckets.size()])
    context_.device.set_bytes(whole, 0, bytes, stream);
  const bool scatters = parameters_.parallel() != Parallel::ddp;
  if (!context_.comm) {
    if (own != whole) context_.device.copy(own, whole, bytes, stream);
  } else if (scatters) {
    context_.comm->reduce_scatter(whole, own, static_cast<size_t>(bucket.count / context_.ranks()),
                                  DType::f32, ReduceOp::sum, stream);
  } else {
    context_.comm->all_reduce(whole, whole, static_cast<size_t>(bucket.count), DType::f32, ReduceOp::sum,
                              stream);
  }
  if (!parameters_.keep_gradients_)
    parameters_.grad_slots_[static_cast<size_t>(bucket.ready_unit) % 2].free->record(stream);
}

void GradientExchange::finish() {
  const StepTimer::Scope scope(context_.timer, Phase::exposed, context_.compute);
  for (const Bucket* bucket : waiting_) send(*bucket, context_.compute);
  waiting_.clear();
  if (overlap_) {
    done_->record(context_.exchange);
    done_->hold(context_.compute);
  }
  if (!spoilt_) return;
  for (const Parameters::Own& part : parameters_.own()) {
    const Matrix grad = Matrix::packed(const_cast<float*>(part.grad), DType::f32, 1, part.count);
    context_.ops.axpby(0, {}, *spoilt_, grad, context_.compute);
  }
}

int64_t GradientExchange::bytes_per_step() const {
  return context_.comm ? parameters_.layout().count() * static_cast<int64_t>(sizeof(float)) : 0;
}

}  // namespace tt
