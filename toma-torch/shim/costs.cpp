// Time and memory of the stages of a region.

#include "costs.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "guard.h"
#include "tape.h"

namespace toma {
namespace {

uint64_t peak_of(const std::optional<Meter>& meter) {
  return meter ? static_cast<uint64_t>(meter->peak() - meter->start()) : 0;
}

// The last reports of a region. They are made once, at the latest when this is dropped, because a backward that fails
// runs no callbacks.
struct Ending {
  explicit Ending(std::shared_ptr<Notes> notes) : notes(std::move(notes)) {}
  ~Ending() { report(); }
  void report() { std::call_once(is_reported, [this] { make_reports(); }); }
  void make_reports();

  const std::shared_ptr<Notes> notes;
  decltype(toma_region_options::observe) observe = nullptr;
  void* guest = nullptr;
  std::optional<Meter> meter;
  Run backward;
  // Report of the backward that was measured last; none if no backward was measured.
  std::optional<toma_region_report> ends;
  toma_region_report over{};
  std::once_flag is_reported;
};

void Ending::make_reports() {
  if (ends) {
    backward.note();
    ends->run.saving_peak_bytes = backward.figures().saving_peak_bytes;
    observe(guest, &*ends);
  }
  if (meter) {
    meter->take();
  }
  const std::lock_guard<std::mutex> held(notes->lock);
  notes->figures.peak_bytes = peak_of(meter);
  notes->figures.is_over = true;
  observe(guest, &over);
}

// The last region whose end this thread will report when the backward is over.
std::weak_ptr<Ending>* last_ending() noexcept { return of_thread<std::weak_ptr<Ending>>(); }

}  // namespace

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

toma_run Run::figures() const { return {nanoseconds() - began, most_dropping, most_saving}; }

Costs::Costs(Tape& tape) : tape(tape), backward_of(none) {}

toma_region_report Costs::report(toma_moment moment, uint32_t stage) const {
  toma_region_report report{};
  report.moment = moment;
  report.stage = stage;
  report.now.allocated_bytes = allocated();
  report.facts.op_count = static_cast<uint32_t>(tape.ops.size());
  return report;
}

// Adds the facts of this moment, which a known structure does not need.
toma_region_report Costs::report_with_facts(toma_moment moment, uint32_t stage) {
  auto made = report(moment, stage);
  if (is_learning) {
    look_at_values();
    look_at_slots();
    made.now.lacking_bytes = tape.notes->lacking_bytes();
    made.facts = facts();
  }
  return made;
}

toma_facts Costs::facts() const {
  const auto& [values, slots] = tape.facts;
  const auto& stages = tape.stages;
  const auto ops = static_cast<uint32_t>(tape.ops.size());
  return {ops, values.data(), values.size(), slots.data(), slots.size(), stages.data(), stages.size()};
}

bool Costs::notify(const toma_region_report& report) const { return tape.observe(tape.guest, &report); }

// Asks if the next operator begins a stage, and joins the last stage with the one before if it began too early. Runs
// before each operator, so it looks only at tensors that may have ended.
bool Costs::begins_stage() {
  auto& [values, slots] = tape.facts;
  for (size_t number = 0; number < values.size(); ++number) {
    values[number].is_alive = values[number].is_alive && tape.values[number].tensor.use_count() > 0;
  }
  for (size_t number = tape.stages.back().first_slot; number < slots.size(); ++number) {
    slots[number].is_alive = slots[number].is_alive && tape.slots[number].storage.use_count() > 0;
  }
  const auto merges = std::make_unique<bool[]>(tape.stages.size());
  auto question = report(TOMA_OPERATOR);
  question.facts = facts();
  question.merges = merges.get();
  const auto begins = notify(question);
  if (merges[tape.current()]) {
    tape.join(tape.current() - 1);
  }
  return begins;
}

void Costs::look_at_values() {
  std::unordered_map<const c10::StorageImpl*, size_t> handles;
  const auto count = [&](const at::Tensor& tensor) { ++handles[tensor.defined() ? storage_of(tensor) : nullptr]; };
  for (const auto& value : tape.values) {
    count(value.held);
    count(value.kept);
  }
  std::for_each(tape.slots.begin(), tape.slots.end(), [&](const Slot& slot) { count(slot.tensor); });
  for (size_t number = 0; number < tape.values.size(); ++number) {
    const auto& value = tape.values[number];
    auto& fact = tape.facts.values[number];
    const auto* held = value.held.defined() ? storage_of(value.held) : nullptr;
    fact.gradient_bytes = value.wants_gradient ? taken_bytes(value.bytes, device) : 0;
    fact.is_alive = value.tensor.use_count() > 0;
    fact.is_held = value.held.defined();
    fact.is_elsewhere = held != nullptr && value.held.storage().use_count() > handles[held];
  }
}

void Costs::look_at_slots() {
  for (size_t number = 0; number < tape.slots.size(); ++number) {
    const auto& slot = tape.slots[number];
    auto& fact = tape.facts.slots[number];
    const auto made = tape.storages.find(slot.storage._unsafe_get_target());
    const auto is_known = made != tape.storages.end();
    fact.maker = !is_known ? none : made->second.value == none ? TOMA_FOREIGN : made->second.value;
    fact.held_storage = slot.tensor.defined() ? storage_of(slot.tensor) : nullptr;
    fact.is_alive = slot.storage.use_count() > 0;
  }
}

void Costs::stage_begins(c10::Device of_operator) {
  if (!meter) {
    device = of_operator;
    if (device.is_cuda()) {
      toma_gpu_observe();
    }
    meter.emplace(device);
  }
  notify(report_with_facts(TOMA_STAGE_BEGINS));
  staying.clear();
  for (uint32_t slot = 0; is_learning && slot < tape.slots.size(); ++slot) {
    if (tape.facts.slots[slot].is_alive) {
      staying.push_back(slot);
    }
  }
  first = run();
}

void Costs::note_freed() {
  const auto is_freed = [&](uint32_t slot) { return tape.slots[slot].storage.use_count() == 0; };
  staying.erase(std::remove_if(staying.begin(), staying.end(), is_freed), staying.end());
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
  std::unordered_set<const void*> dropped;
  int64_t bytes = 0;
  each_slot(stage, [&](const Slot& slot, const toma_slot& fact) {
    const auto is_dropped = !fact.is_dead && !slot.tensor.defined() && slot.storage.use_count() == 0;
    bytes += is_dropped && dropped.insert(fact.storage).second ? static_cast<int64_t>(fact.bytes) : 0;
  });
  return bytes;
}

// Bytes that are alive only because slots hold them.
int64_t Costs::held_bytes_of(uint32_t stage) const {
  std::unordered_map<const c10::StorageImpl*, size_t> handles;
  int64_t bytes = 0;
  each_slot(stage, [&](const Slot& slot, const toma_slot& fact) {
    const auto* storage = slot.tensor.defined() ? storage_of(slot.tensor) : nullptr;
    if (storage != nullptr && ++handles[storage] == slot.tensor.storage().use_count()) {
      bytes += static_cast<int64_t>(fact.bytes);
    }
  });
  return bytes;
}

template <class F>
void Costs::each_slot(uint32_t stage, const F& body) const {
  for (auto slot = tape.stages[stage].first_slot; slot < tape.end_slot(stage); ++slot) {
    if (!tape.facts.slots[slot].is_outside) {
      body(tape.slots[slot], tape.facts.slots[slot]);
    }
  }
}

toma_run Costs::end_first() {
  between(tape.current(), first, true);
  const auto run = first.figures();
  least_bytes = std::max(least_bytes, run.saving_peak_bytes);
  return run;
}

void Costs::explain(c10::OutOfMemoryError& error) const {
  if (is_learning && tape.notes->undo == nullptr) {
    error.add_context(c10::str(
        "checkpoint: the first run of a region follows no plan, and one of its stages needs ",
        std::max(least_bytes, first.figures().saving_peak_bytes),
        " bytes more than before it; run it once by `measure` with fewer items or more memory"));
  }
}

bool Costs::stage_ends() {
  const auto run = end_first();
  auto ends = report_with_facts(TOMA_STAGE_ENDS);
  ends.run = run;
  return notify(ends);
}

void Costs::joins(uint32_t into) {
  between(tape.current(), first, true);
  notify(report(TOMA_JOINS, into));
}

std::unique_ptr<bool[]> Costs::region_ends() {
  const auto run = end_first();
  const std::lock_guard<std::mutex> held(tape.notes->lock);
  leaves();
  publish();
  auto merges = std::make_unique<bool[]>(tape.stages.size());
  auto ends = report_with_facts(TOMA_REGION_ENDS);
  ends.run = run;
  ends.merges = merges.get();
  // Memory that the program has freed since the last operator counts as alive: it was there while all operators ran.
  if (is_learning) {
    auto& slots = tape.facts.slots;
    std::for_each(slots.begin(), slots.end(), [](toma_slot& slot) { slot.is_alive = false; });
    std::for_each(staying.begin(), staying.end(), [&](uint32_t slot) { slots[slot].is_alive = true; });
  }
  notify(ends);
  return merges;
}

void Costs::leaves() {
  auto& notes = *tape.notes;
  std::vector<bool> is_used_later(tape.outsides.size());
  // Regions that learn nothing are not searched.
  const auto later = is_learning && tape.stages.size() > 1 ? tape.stages[1].first_op : tape.ops.size();
  for (size_t op = later; op < tape.ops.size(); ++op) {
    for (const auto& ref : tape.ops[op].refs) {
      if (ref.outside != none) {
        is_used_later[ref.outside] = true;
      }
    }
  }
  for (size_t number = 0; number < tape.outsides.size(); ++number) {
    const auto& outside = tape.outsides[number];
    if (outside.is_variable) {
      notes.leaves.push_back({outside.tensor, outside.bytes});
      notes.figures.variable_gradient_bytes += outside.bytes;
      notes.figures.first_gradient_bytes += is_used_later[number] ? 0 : outside.bytes;
    } else if (outside.wants_gradient) {
      notes.figures.input_gradient_bytes += outside.bytes;
    }
  }
}

uint64_t Notes::lacking_bytes() const {
  uint64_t bytes = 0;
  for (const auto& leaf : leaves) {
    const auto variable = leaf.variable.lock();
    // The variable that takes the place of one that is gone has no gradient yet.
    bytes += !variable || !variable->grad().defined() ? leaf.bytes : 0;
  }
  return bytes;
}

void Costs::publish() {
  auto& figures = tape.notes->figures;
  figures.operators = tape.ops.size();
  figures.peak_bytes = peak_of(meter);
}

void Costs::repeated(uint32_t stage, bool saves, const Run& run) {
  auto repeated = report(TOMA_REPEATED, stage);
  repeated.run = run.figures();
  repeated.is_so = saves;
  {
    const std::lock_guard<std::mutex> held(tape.notes->lock);
    tape.notes->figures.repeat_ns += repeated.run.elapsed_ns;
  }
  notify(repeated);
}

void Costs::backward_arrives() {
  // Memory that this region takes must not count for the region that ended before it.
  const auto* last = last_ending();
  if (const auto ending = last == nullptr ? nullptr : last->lock()) {
    ending->report();
  }
  if (!is_learning || std::exchange(has_arrived, true)) {
    return;
  }
  auto arrives = report_with_facts(TOMA_BACKWARD_ARRIVES);
  if (meter->counts_here()) {
    after.note();
    const auto fallen = after.start() + static_cast<int64_t>(after.figures().saving_peak_bytes) - meter->now();
    arrives.run.saving_peak_bytes = static_cast<uint64_t>(std::max<int64_t>(fallen, 0));
  }
  notify(arrives);
}

void Costs::backward_begins(uint32_t stage) {
  backward_of = stage;
  notify(report_with_facts(TOMA_BACKWARD_BEGINS, stage));
  backward = run();
}

// Ends the measured backward and returns its report; none if no backward is measured.
std::optional<toma_region_report> Costs::take_backward() {
  const auto stage = std::exchange(backward_of, none);
  if (stage == none) {
    return std::nullopt;
  }
  backward.note();
  auto ends = report(TOMA_BACKWARD_ENDS, stage);
  ends.run = backward.figures();
  // False on a thread that the region does not count, or once a profiler has ended that was active when the region
  // began.
  ends.is_so = meter->counts_here();
  return ends;
}

void Costs::backward_ends() {
  if (const auto ends = take_backward()) {
    notify(*ends);
  }
}

// The tape ends when the last node of its graph lets go of its tensors. Only then does the engine add the gradients of
// that node to those that other nodes have made for the same variables, which may take memory for the sum. So the end
// is reported when the backward is over, unless that goes on to work from before the region.
void Costs::is_over() {
  auto& notes = *tape.notes;
  const auto ending = std::make_shared<Ending>(tape.notes);
  ending->observe = tape.observe;
  ending->guest = tape.guest;
  ending->ends = take_backward();
  ending->over = report(TOMA_OVER);
  ending->meter = meter;
  ending->backward = std::move(backward);
  {
    const std::lock_guard<std::mutex> held(notes.lock);
    publish();
  }
  const auto graph_ends = notes.undo != nullptr || notes.figures.input_gradient_bytes == 0;
  if (!graph_ends || is_recorded()) {
    return;
  }
  when_backward_ends([ending] { ending->report(); });
  if (auto* last = last_ending()) {
    *last = ending;
  }
}

}  // namespace toma
