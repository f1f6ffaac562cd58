// Time and memory of the stages of a region.

#include "costs.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tape.h"

namespace toma {

Run::Run(std::optional<c10::Device> device) : began(nanoseconds()) {
  if (device) {
    meter.emplace(*device);
  }
}

void Run::holds(int64_t more_now, int64_t less_now) {
  more = more_now;
  less = less_now;
}

void Run::note() {
  if (meter) {
    const auto peak = meter->peak_since();
    most_dropping = std::max<int64_t>(most_dropping, peak - less);
    most_saving = std::max<int64_t>(most_saving, peak + more);
  }
}

uint64_t Run::elapsed_ns() const { return nanoseconds() - began; }

Costs::Costs(Tape& tape) : tape(tape), backward_of(none) {}

void Costs::tell(uint64_t repeated_ns, bool is_over) const {
  const auto allocated = std::max<int64_t>(this->allocated(), 0);
  tape.told(tape.guest, {static_cast<uint64_t>(allocated), repeated_ns, is_over});
}

void Costs::stage_begins(c10::Device of_operator) {
  if (!meter) {
    device = of_operator;
    if (device.is_cuda()) {
      toma_gpu_observe();
    }
    meter.emplace(device);
  }
  tell(0, false);
  starts.push_back(allocated());
  elsewhere.push_back(is_learning ? held_elsewhere() : std::vector<uint32_t>());
  stages.push_back({});
  stages.back().first_op = static_cast<uint32_t>(tape.ops.size());
  first = run();
}

// Called after each operator and before the next, because the program frees tensors in between.
void Costs::between(uint32_t stage, Run& run, bool is_first) const {
  if (is_learning) {
    run.note();
    run.holds(is_first ? dropped_bytes(stage) : 0, held_bytes_of(stage));
    run.note();
  }
}

// Bytes that slots would hold in addition to the live bytes.
int64_t Costs::dropped_bytes(uint32_t stage) const {
  Storages dropped;
  each_slot(stage, [&](const Slot& slot) {
    if (!slot.is_dead && !slot.tensor.defined() && slot.storage.use_count() == 0) {
      dropped.add(slot.storage._unsafe_get_target(), slot.bytes);
    }
  });
  return static_cast<int64_t>(dropped.bytes);
}

// Bytes that are alive only because slots hold them.
int64_t Costs::held_bytes_of(uint32_t stage) const {
  std::unordered_map<const c10::StorageImpl*, size_t> handles;
  int64_t bytes = 0;
  each_slot(stage, [&](const Slot& slot) {
    const auto* storage = slot.tensor.defined() ? storage_of(slot.tensor) : nullptr;
    if (storage != nullptr && ++handles[storage] == slot.tensor.storage().use_count()) {
      bytes += static_cast<int64_t>(slot.bytes);
    }
  });
  return bytes;
}

template <class F>
void Costs::each_slot(uint32_t stage, const F& body) const {
  for (auto slot = tape.stages[stage].first_slot; slot < tape.end_slot(stage); ++slot) {
    if (!tape.slots[slot].is_outside) {
      body(tape.slots[slot]);
    }
  }
}

void Costs::stage_ends() {
  auto& stage = stages.back();
  if (learns()) {
    between(tape.current(), first, true);
    stage.peak_bytes = first.dropping();
    stage.saving_peak_bytes = first.saving();
  }
  stage.forward_ns = first.elapsed_ns();
}

// Sums the costs of the merged stages, as far as they are known.
void Costs::joins(uint32_t into) {
  stage_ends();
  auto& joined = stages[into];
  uint64_t saved = joined.saving_peak_bytes;
  for (auto stage = stages.begin() + into + 1; stage != stages.end(); ++stage) {
    joined.forward_ns += stage->forward_ns;
    joined.peak_bytes += stage->peak_bytes;
    saved += stage->saving_peak_bytes;
  }
  joined.saving_peak_bytes = saved;
  stages.resize(into + 1);
  starts.resize(into + 1);
  elsewhere.resize(into + 1);
}

// Merges stage `second` with the one before it. A recomputation measures the bytes that they save together.
void Costs::unites(uint32_t second) {
  auto& joined = stages[second - 1];
  const auto& next = stages[second];
  // The first run may have dropped the input in between; later runs hold it.
  const auto made = tape.bytes_where({}, [&](const Value& value) { return value.stage == second - 1 && second <= value.last_stage; });
  const auto grown = std::max(starts[second] - starts[second - 1], static_cast<int64_t>(made));
  const auto later = [&](uint64_t peak) { return static_cast<uint64_t>(std::max<int64_t>(grown + static_cast<int64_t>(peak), 0)); };
  joined.forward_ns += next.forward_ns;
  joined.peak_bytes = std::max(joined.peak_bytes, later(next.peak_bytes));
  joined.saving_peak_bytes = std::max(joined.saving_peak_bytes, later(next.saving_peak_bytes));
  stages.erase(stages.begin() + second);
  starts.erase(starts.begin() + second);
  elsewhere.erase(elsewhere.begin() + second);
}

// Bytes of earlier stages that this and later stages use, or that boundaries hold.
int64_t Costs::held_before(uint32_t stage) const {
  const auto is_held = [&](const Value& value) { return value.stage < stage && (value.last_stage >= stage || tape.is_needed(value)); };
  return static_cast<int64_t>(tape.bytes_where({}, is_held));
}

// Values that are held by boundaries and by something else as well.
std::vector<uint32_t> Costs::held_elsewhere() const {
  std::unordered_map<const c10::StorageImpl*, size_t> handles;
  const auto count = [&](const at::Tensor& tensor) {
    const auto* storage = tensor.defined() ? storage_of(tensor) : nullptr;
    handles[storage] += storage == nullptr ? 0 : 1;
  };
  for (const auto& value : tape.values) {
    count(value.held);
    count(value.kept);
  }
  std::for_each(tape.slots.begin(), tape.slots.end(), [&](const Slot& slot) { count(slot.tensor); });
  std::vector<uint32_t> elsewhere;
  for (uint32_t number = 0; number < tape.values.size(); ++number) {
    const auto& held = tape.values[number].held;
    if (held.defined() && held.has_storage() && held.storage().use_count() > handles[storage_of(held)]) {
      elsewhere.push_back(number);
    }
  }
  return elsewhere;
}

// Bytes of those values that the stage does not use, although they are alive during its first run.
int64_t Costs::staying(uint32_t stage) const {
  Storages used;
  for (const auto& value : tape.values) {
    if (value.stage < stage && stage <= value.last_stage) {
      used.add(value.storage._unsafe_get_target(), 0);
    }
  }
  return bytes_of_values(elsewhere[stage], used);
}

// Bytes that the values add to the storages in `counted`.
int64_t Costs::bytes_of_values(const std::vector<uint32_t>& numbers, Storages counted) const {
  for (const auto number : numbers) {
    counted.add(tape.values[number].storage._unsafe_get_target(), tape.values[number].storage_bytes);
  }
  return static_cast<int64_t>(counted.bytes);
}

// Computes sizes from the recording, independent of the tensors that were held.
void Costs::sizes() {
  for (uint32_t number = 0; number < stages.size(); ++number) {
    auto& stage = stages[number];
    Storages output, saved, united;
    for (const auto& value : tape.values) {
      const auto* storage = value.storage._unsafe_get_target();
      if (value.stage <= number && number < value.last_stage) {
        output.add(storage, value.storage_bytes);
        united.add(storage, value.storage_bytes);
        stage.gradient_bytes += value.wants_gradient ? taken_bytes(value.bytes, device) : 0;
        if (value.stage == number) {
          saved.add(storage, value.storage_bytes);
        }
      }
    }
    each_slot(number, [&](const Slot& slot) {
      const auto* storage = slot.storage._unsafe_get_target();
      const auto made = tape.storages.find(storage);
      if (made == tape.storages.end() || made->second.stage == number) {
        saved.add(storage, slot.bytes);
        united.add(storage, slot.bytes);
      }
    });
    // Other tensors of the program, which are alive while the stage runs for the first time.
    const auto others = static_cast<uint64_t>(std::max<int64_t>(starts[number] - held_before(number), 0) + staying(number));
    stage.peak_bytes += others;
    stage.saving_peak_bytes += others;
    stage.output_bytes = output.bytes;
    stage.saved_bytes = saved.bytes;
    stage.united_bytes = united.bytes;
    stage.is_kept = tape.stages[number].is_kept;
    // Backward needs nothing from this stage.
    stage.is_measured = tape.stages[number].first_slot == tape.end_slot(number);
  }
}

void Costs::leaves() {
  auto& notes = *tape.notes;
  for (const auto& outside : tape.outsides) {
    if (outside.is_variable) {
      notes.leaves.push_back({outside.tensor, outside.bytes});
    } else if (outside.wants_gradient) {
      notes.figures.input_gradient_bytes += outside.bytes;
    }
  }
}

uint64_t Notes::lacking_bytes() const {
  uint64_t bytes = 0;
  for (const auto& leaf : leaves) {
    const auto variable = leaf.variable.lock();
    bytes += variable && !variable->grad().defined() ? leaf.bytes : 0;
  }
  return bytes;
}

void Costs::region_ends() {
  if (learns()) {
    sizes();
  }
  const std::lock_guard<std::mutex> held(tape.notes->lock);
  leaves();
  lacking_bytes = tape.notes->lacking_bytes();
  publish();
  after = run();
}

void Costs::publish() {
  auto& notes = *tape.notes;
  notes.figures.operators = tape.ops.size();
  notes.figures.peak_bytes = meter ? static_cast<uint64_t>(meter->peak() - meter->start()) : 0;
  notes.stages = stages;
}

void Costs::repeated(uint32_t number, bool saves, const Run& run) {
  auto& stage = stages[number];
  const auto elapsed = run.elapsed_ns();
  ++stage.repeats;
  if (learns() && saves) {
    stage.repeat_ns = elapsed;
    stage.repeat_peak_bytes = run.dropping();
    stage.repeat_saving_peak_bytes = run.saving();
  }
  {
    const std::lock_guard<std::mutex> held(tape.notes->lock);
    tape.notes->figures.repeat_ns += elapsed;
  }
  tell(elapsed, false);
}

// Measures the bytes that the region does not hold: its outputs, tensors computed from them, and their gradients.
void Costs::backward_arrives() {
  if (!is_learning || std::exchange(has_arrived, true)) {
    return;
  }
  auto held = held_values();
  for (uint32_t number = 0; number < tape.slots.size(); ++number) {
    const auto& slot = tape.slots[number];
    const auto is_held = slot.tensor.defined() || number >= tape.stages.back().first_slot;
    if (!slot.is_outside && is_held && slot.storage.use_count() > 0) {
      const auto is_new = held.add(slot.storage._unsafe_get_target(), slot.bytes);
      output_bytes += is_new && !slot.tensor.defined() ? slot.bytes : 0;
    }
  }
  after.note();
  const auto besides = allocated() - static_cast<int64_t>(held.bytes) + bytes_of_values(held_elsewhere(), {});
  const auto fallen = after.start() + static_cast<int64_t>(after.saving()) - meter->now();
  fallen_bytes = static_cast<uint64_t>(std::max<int64_t>(fallen, 0));
  stages.back().gradient_bytes = static_cast<uint64_t>(std::max<int64_t>(besides, 0));
}

// Storages that boundaries hold.
Storages Costs::held_values() const {
  Storages held;
  for (const auto& value : tape.values) {
    if (value.held.defined()) {
      held.add(value.storage._unsafe_get_target(), value.storage_bytes);
    }
  }
  return held;
}

// Bytes that boundaries and slots hold.
int64_t Costs::held_by_tape() const {
  auto held = held_values();
  for (const auto& slot : tape.slots) {
    if (!slot.is_outside && slot.tensor.defined()) {
      held.add(storage_of(slot.tensor), slot.bytes);
    }
  }
  return static_cast<int64_t>(held.bytes);
}

// Bytes allocated since the region began, without gradients of variables.
int64_t Costs::left() const { return allocated() - static_cast<int64_t>(lacking_bytes - tape.notes->lacking_bytes()); }

void Costs::backward_begins(uint32_t number) {
  backward_of = number;
  if (is_learning) {
    // A plan may have dropped the input of the stage and made a new one.
    const auto besides = left() - held_by_tape() + bytes_of_values(held_elsewhere(), {});
    const auto others = besides - static_cast<int64_t>(stages[number].gradient_bytes);
    stages[number].others_bytes = static_cast<uint64_t>(std::max<int64_t>(others, 0));
  }
  backward = run();
  tell(0, false);
  Storages held;
  each_slot(number, [&](const Slot& slot) {
    if (slot.tensor.defined()) {
      held.add(storage_of(slot.tensor), slot.bytes);
    }
  });
  held_bytes = held.bytes;
}

void Costs::backward_ends() {
  const auto number = std::exchange(backward_of, none);
  if (number == none) {
    return;
  }
  backward.note();
  auto& stage = stages[number];
  stage.backward_ns = backward.elapsed_ns();
  if (learns()) {
    // The peak is relative to all saved activations, of which the graph may hold only a part.
    const auto unheld = stage.saved_bytes - std::min(stage.saved_bytes, held_bytes);
    const auto before = number + 1 == stages.size() ? fallen_bytes : 0;
    const auto beyond = number + 1 == stages.size() ? output_bytes : 0;
    stage.backward_peak_bytes = std::max(before, beyond + backward.saving() - std::min(backward.saving(), unheld));
  }
  // False on a thread that the region does not count, or once a profiler has ended that was active when the region
  // began.
  stage.is_measured = meter->counts_here();
}

void Costs::is_over() {
  backward_ends();
  if (meter) {
    meter->take();
  }
  const std::lock_guard<std::mutex> held(tape.notes->lock);
  publish();
  tape.notes->figures.is_over = true;
  tell(0, true);
  // Later stages whose backward has not run belong to branches that lead to no gradient.
  uint32_t needed = 0;
  while (needed < tape.stages.size() && tape.stages[needed].first_slot == tape.end_slot(needed)) {
    ++needed;
  }
  tape.notes->figures.is_whole = needed == tape.stages.size() || stages[needed].is_measured;
}

}  // namespace toma
