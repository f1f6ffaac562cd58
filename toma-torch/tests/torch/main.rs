//! Real tensors that really run out of memory, on the CPU.

#![expect(clippy::float_cmp, reason = "small whole numbers, which floats hold exactly")]

#[path = "../common/alone.rs"]
mod alone;
mod backtraces;
mod bad_input;
mod bodies;
mod budgets;
#[path = "../../../tests/common/child.rs"]
mod child;
mod chunks;
mod corrected;
mod counting;
mod devices;
mod dry;
mod dry_calls;
mod dry_failures;
mod every_allocation;
#[path = "../../../tests/common/executor.rs"]
mod executor;
mod forms;
mod gradients;
#[path = "../common/ground.rs"]
mod ground;
mod inventory;
mod leaks;
mod modes;
#[path = "../../../tests/common/named.rs"]
mod named;
mod nets;
mod nine;
mod original;
mod peak;
mod peaks;
mod predict;
mod predicted;
mod random;
mod readme;
#[path = "../../../tests/common/resident.rs"]
mod resident;
mod rollback;
#[path = "../../../tests/common/rounds.rs"]
mod rounds;
mod stage;
mod strange;
mod stress;
mod sweeps;
mod two_copies;
#[path = "../../build/version.rs"]
mod version;
mod versions;
mod vision;
