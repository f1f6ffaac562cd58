//! Leaner plans: offers of bodies, when the engine asks for one, and how policies use the time that a plan costs.

#[path = "../common/executor.rs"]
mod executor;
#[cfg(feature = "testing")]
mod faster;
mod floor;
mod forms;
#[path = "../common/kit.rs"]
mod kit;
mod offers;
#[path = "../common/printed.rs"]
mod printed;
mod region;
mod rungs;
mod tasks;

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        printed::listen();
    }
}
