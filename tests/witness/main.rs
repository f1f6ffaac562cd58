//! The witness: it observes attempts in every form and on every way out, reports which objects filled the memory, and
//! changes nothing. It is process-wide, so these tests run one after the other.

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
#[cfg(feature = "tracing")]
#[path = "../sizes/observing/subscriber.rs"]
mod subscriber;
mod tasks;
mod trouble;
mod turns;
