//! The witness: it sees where attempts run, in every form and on every way out, says what filled the memory, and changes
//! nothing. There is one for the process, so these tests run one after the other.

#[path = "../common/child.rs"]
mod child;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod listening;
#[cfg(feature = "testing")]
mod measured;
#[path = "../common/named.rs"]
mod named;
mod random;
mod scripted;
mod shown;
mod tasks;
mod trouble;
mod turns;
