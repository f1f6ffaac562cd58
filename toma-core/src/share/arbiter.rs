//! Who may begin: a pure function of who waits and who runs.
//!
//! Per device it is a fair queue of readers and writers. Readers are ordinary attempts, writers those
//! that want to be alone. Two things are its own: whoever waits does not count as running, and
//! neither do the attempts around it; and an attempt belongs to those around it, so it never waits for
//! them.

use super::slots::{Device, Node, Runner};

/// How an attempt shares its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With other attempts.
    Shared,
    /// With nobody but the attempts around it and those that wait.
    Alone,
}

/// Those who wait, and those who were let in alone, the oldest ticket first.
#[derive(Debug, Default)]
pub(super) struct Arbiter {
    entries: Vec<Entry>,
    tickets: u64,
}

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ticket: u64,
    pub(super) who: Runner,
    /// The attempts around it.
    pub(super) around: Vec<Node>,
    pub(super) kind: Kind,
    /// It was let in, alone.
    pub(super) holds: bool,
}

impl Entry {
    fn waits(&self) -> bool {
        !self.holds
    }
}

impl Arbiter {
    /// A ticket after all others; never 0.
    pub(super) fn draw(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn join(&mut self, entry: Entry) {
        let at = self.entries.partition_point(|other| other.ticket < entry.ticket);
        self.entries.insert(at, entry);
    }

    /// Forgets an attempt that waits no more, or is alone no more.
    pub(super) fn remove(&mut self, node: Node) {
        self.entries.retain(|entry| entry.who.node != node);
    }

    pub(super) fn is_waiting(&self, node: Node) -> bool {
        self.entries.iter().any(|entry| entry.who.node == node && entry.waits())
    }

    /// Lets in whoever may begin, in their order, and returns them; `running` are those who run.
    pub(super) fn admit(&mut self, mut running: Vec<Runner>) -> Vec<Runner> {
        let mut admitted = Vec::new();
        while let Some(at) =
            self.entries.iter().position(|entry| entry.waits() && self.admits(entry, &running))
        {
            let who = self.entries[at].who;
            match self.entries[at].kind {
                Kind::Shared => drop(self.entries.remove(at)),
                Kind::Alone => self.entries[at].holds = true,
            }
            running.push(who);
            admitted.push(who);
        }
        admitted
    }

    fn admits(&self, entry: &Entry, running: &[Runner]) -> bool {
        let Entry { who, around, .. } = entry;
        match entry.kind {
            Kind::Shared => {
                let ahead = self.entries.iter().filter(|other| other.holds || other.ticket < entry.ticket);
                self.has_room(who.device, around, running, ahead)
            }
            Kind::Alone => {
                let mut rivals = self.entries.iter().filter(|other| other.who.device == who.device);
                !rivals.any(|other| other.waits() && other.ticket < entry.ticket)
                    && self.others(*who, around, running) == 0
            }
        }
    }

    /// Whether an ordinary attempt that is not in the queue may begin.
    pub(super) fn has_room_for(&self, device: Device, around: &[Node], running: &[Runner]) -> bool {
        self.has_room(device, around, running, self.entries.iter())
    }

    /// Whoever waited for an attempt around this one would wait forever if this one waited, too.
    fn has_room<'e>(
        &self,
        device: Device,
        around: &[Node],
        running: &[Runner],
        mut ahead: impl Iterator<Item = &'e Entry>,
    ) -> bool {
        let belongs = running.iter().any(|runner| runner.device == device && around.contains(&runner.node));
        let in_the_way = |other: &Entry| {
            let wants = other.waits() || !self.is_held_up(other.who.node);
            other.who.device == device && other.kind == Kind::Alone && wants
        };
        belongs || !ahead.any(in_the_way)
    }

    /// How many of `running` are in the way of `who` being alone.
    pub(super) fn others(&self, who: Runner, around: &[Node], running: &[Runner]) -> usize {
        let counts = |runner: &&Runner| {
            runner.device == who.device
                && runner.node != who.node
                && !around.contains(&runner.node)
                && !self.is_held_up(runner.node)
        };
        running.iter().filter(counts).count()
    }

    /// Whether an attempt inside this one waits.
    fn is_held_up(&self, node: Node) -> bool {
        self.entries.iter().any(|entry| entry.waits() && entry.around.contains(&node))
    }
}
