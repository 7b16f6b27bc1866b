#include "bench/support/train_options.h"

#include <limits>

#include "common/error.h"
#include "common/quote.h"
#include "src/llm/model_config.h"

namespace tt {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;

void add_model(OptionSet& set, TrainToolOptions& o, bool lora) {
  std::string presets;
  for (const ModelConfig& preset : model_presets()) presets += (presets.empty() ? "" : ", ") + preset.name;
  set.heading("Model");
  set.add_text("--model", o.model, "a preset with random weights (" + presets + ") or a Hugging Face folder",
               "NAME|DIR");
  set.add_int("--layers", o.layers, "only the first L layers; 0: all", 0, kMany, "L");
  set.add_text("--save-model", o.save_model, "write the model as a Hugging Face folder", "DIR");
  if (!lora) return;
  set.heading("Adapters (LoRA as PEFT defines it)");
  set.add_text("--adapter", o.adapter, "PEFT adapter to start from", "DIR");
  set.add_text("--save-adapter", o.save_adapter, "write the trained adapter", "DIR");
  set.add_int("--lora-rank", o.lora_rank, "rank of every adapter; 16 if not given", 1, kMany, "R");
  set.add_double("--lora-alpha", o.lora_alpha, "adapters are scaled by alpha / rank; 32 if not given", 0,
                 1e6);
  set.add_double("--lora-dropout", o.lora_dropout, "on the adapters' input; 0 if not given", 0, 0.999);
  set.add_choices("--lora-targets", o.lora_targets, {},
                  "all-linear, attention, or a list such as q_proj,v_proj");
  set.add_flag("--rslora", o.rslora, "scale by alpha / sqrt(rank)");
}

void add_step(OptionSet& set, TrainToolOptions& o) {
  set.heading("The step");
  set.add_int("--batch", o.batch, "sequences per micro-batch and rank", 1, kMany, "B");
  set.add_int("--seq-length", o.seq,
              "tokens per sequence; 0: the data's, else 4096 on a GPU and 64 on the host", 0, kMany, "S");
  set.add_int("--grad-accum", o.grad_accum, "micro-batches per optimiser step", 1, kMany, "A");
  set.add_int("--global-batch", o.global_batch, "sequences per optimiser step over all ranks; gives A", 0,
              kMany, "G");
  set.add_custom(
      "--precision", [&o](const std::string& text) { o.precision = parse_precision("--precision", text); },
      "bf16", "fp32 (reference), bf16 (fp32 masters), fp8 (e4m3 weights and activations, e5m2 gradients)");
  set.add_int("--fp8-keep-layers", o.fp8_keep_layers, "fp8: so many first and last layers stay in bf16", 0,
              kMany);
  set.add_choice("--optimizer", o.optimizer, {"adamw"}, "as torch.optim.AdamW");
  set.add_double("--lr", o.adamw.lr, "learning rate", 0, 1e6);
  set.add_double("--beta1", o.adamw.beta1, "", 0, 1);
  set.add_double("--beta2", o.adamw.beta2, "", 0, 1);
  set.add_double("--eps", o.adamw.eps, "", 0, 1);
  set.add_double("--weight-decay", o.adamw.weight_decay, "decoupled, on every trained parameter", 0, 1e6);
  set.add_bool("--decay-norms", o.decay_norms, "decay norm weights too");
  set.add_double("--clip", o.adamw.clip, "largest global gradient norm; 0: not clipped", 0, 1e12);
  set.add_choice("--schedule", o.schedule, {"constant", "cosine"}, "of the learning rate");
  set.add_int("--warmup-steps", o.adamw.warmup_steps, "steps over which the learning rate rises from 0", 0,
              kMany);
  set.add_custom(
      "--parallel", [&o](const std::string& text) { o.parallel = parse_parallel("--parallel", text); }, "ddp",
      "ddp, zero1 (sharded optimiser) or fsdp (everything sharded)");
  set.add_size("--bucket-size", o.bucket_bytes, "bytes of gradient exchanged at once (ddp, zero1)", 1);
  set.add_bool("--overlap", o.overlap, "exchange gradients while the backward pass goes on");
  set.add_choice("--recompute", o.recompute, {"none", "attention", "layer", "auto"},
                 "activations computed anew instead of kept");
}

void add_run(OptionSet& set, TrainToolOptions& o, bool lora) {
  set.heading("The run");
  set.add_text("--data", o.data,
               std::string("synthetic, markov, ") + (lora ? "teacher, " : "") +
                   "a token file (.safetensors, Megatron .bin/.idx, flat .bin)",
               "SOURCE");
  set.add_choice("--data-dtype", o.data_dtype, {"u16", "u32"}, "of a flat .bin");
  set.add_int("-n,--steps,--iters", o.steps, "optimiser steps in all", 1, kMany);
  set.add_int("-w,--warmup_iters", o.warmup,
              "of these, the first so many are not timed; they train all the same", 0, kMany);
  set.add_bool("-c,--check", o.check, "check every step's loss, gradient norm and, between ranks, weights");
  set.add_int("--hash-every", o.hash_every, "steps between comparisons of the ranks' weights; 0: never", 0,
              kMany, "K");
  set.add_ints("--scale", o.scale, "the run on so many ranks, one after the other; prints speed-ups", 1,
               1 << 20);
  set.add_bool("--strong", o.strong,
               "--scale: keep the global batch (strong scaling) instead of the batch per rank");
  set.add_flag("--plan", o.plan, "print what the run would take (memory, exchange, operations) and end");
  set.add_int("--plan-ranks", o.plan_ranks, "--plan for so many ranks; 0: those of this run", 0, 1 << 24);
  set.heading("Does it learn?");
  set.add_int("--eval-every", o.eval_every, "steps between evaluations on samples not trained on; 0: none", 0,
              kMany, "K");
  set.add_double("--target-loss", o.target_loss, "the loss at the end must not be above this", 0, 1e6);
  set.add_double(
      "--max-gap", o.max_gap,
      "markov: so many nats may the loss at the end be above the source's entropy; 0.25 if not given", 0,
      1e6);
  if (lora)
    set.add_double("--teacher-fraction", o.teacher_fraction,
                   "teacher: how far the loss must come down towards the teacher's entropy", 0, 1);
  set.add_choice("--compare-precision", o.compare_precision, {"", "fp32", "bf16"},
                 "run the same steps in this precision too and hold the difference of the losses to a limit");
  set.add_double("--max-difference", o.max_difference,
                 "of the two losses at the end; 0: 0.006 and what few steps add", 0, 100);
  set.heading("Files");
  set.add_text("--checkpoint", o.checkpoint, "folder of sharded checkpoints", "DIR");
  set.add_int("--checkpoint-every", o.checkpoint_every, "steps between checkpoints; 0: one at the end", 0,
              kMany, "K");
  set.add_flag("--resume", o.resume, "go on from the last checkpoint of --checkpoint");
  set.add_text("--save-grads", o.save_grads,
               "gradients of the first step, averaged over ranks, before clipping", "FILE");
  set.add_text("--save-logits", o.save_logits, "logits of the first micro-batch of rank 0", "FILE");
  set.add_text("--loss-log", o.loss_log, "JSON lines: step, loss, grad_norm, lr, tokens", "FILE");
}

}  // namespace

void add_train_options(OptionSet& set, TrainToolOptions& o, bool lora) {
  add_model(set, o, lora);
  add_step(set, o);
  add_run(set, o, lora);
}

void finish_train_options(TrainToolOptions& o, bool lora) {
  o.adamw.schedule = o.schedule == "cosine" ? Schedule::cosine : Schedule::constant;
  if (o.recompute != "auto") o.recompute_kind = parse_recompute("--recompute", o.recompute);
  if (o.warmup >= o.steps)
    throw UsageError("-w/--warmup_iters: " + std::to_string(o.warmup) + " of -n " + std::to_string(o.steps) +
                     " steps leave none to time; accepted: 0 to " + std::to_string(o.steps - 1));
  if (o.fp8_keep_layers > 0 && o.precision != Precision::fp8)
    throw UsageError("--fp8-keep-layers: has no meaning without --precision fp8");
  if (o.resume && o.checkpoint.empty()) throw UsageError("--resume: needs --checkpoint DIR");
  if (o.checkpoint_every > 0 && o.checkpoint.empty())
    throw UsageError("--checkpoint-every: needs --checkpoint DIR");
  if (o.data == "teacher" && !lora)
    throw UsageError("--data teacher: a teacher is an adapter; use lora_step_perf");
  if (o.max_gap && o.data != "markov") throw UsageError("--max-gap: only --data markov has a known entropy");
  if (!o.adapter.empty() &&
      (o.lora_rank || o.lora_alpha || o.lora_dropout || !o.lora_targets.empty() || o.rslora))
    throw UsageError("--adapter: gives rank, alpha, dropout and targets itself; drop the --lora-… options");
  if (!o.compare_precision.empty() && o.compare_precision == name_of(o.precision))
    throw UsageError("--compare-precision: " + in_quotes(o.compare_precision) +
                     " is the run's own precision");
  if (o.strong && o.scale.empty()) throw UsageError("--strong: needs --scale");
}

}  // namespace tt
