//! Loops: their rules against a slow twin, values one by one, and data in chunks.

#[path = "../common/child.rs"]
mod child;
mod chunks;
#[path = "../common/executor.rs"]
mod executor;
#[path = "../common/kit.rs"]
mod kit;
mod lazy;
#[path = "../common/printed.rs"]
mod printed;
#[path = "../common/rounds.rs"]
mod rounds;
mod rules;

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        printed::listen();
        rules::register();
    }
}
