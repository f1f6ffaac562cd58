//! Who may begin: a pure function of who waits and who runs.
//!
//! Per device it is a fair queue of readers and writers. Readers are ordinary attempts, writers those
//! that want to be alone. What is its own is nesting. An attempt belongs to those around it, so it never
//! waits for them; and while it waits they hold their memory, which others may be waiting for. So:
//!
//! - Nested attempts go before those at the top level, whatever their age. The latter hold nothing.
//! - A nested attempt waits for those that run. One around an attempt that waits, too, is held up: it
//!   does not run, because each of the two may hold what the other lacks.
//! - An attempt at the top level waits for all that hold memory of the device, also those held up.
//!
//! So there is no circle: nobody waits for the top level but the top level, where the oldest comes first;
//! and of the nested attempts the oldest waits for none that waits. Nested means inside any attempt, on
//! whatever device. If what counted were attempts on the same device, two that each hold one device and
//! want to be alone on the other would wait for each other.

use super::slots::{Device, Node, Runner};

/// How an attempt shares its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// With other attempts.
    Shared,
    /// With nobody but the attempts around it and, where it is nested, those that are held up.
    Alone,
}

/// Those who wait, and those who were let in alone: the nested ones first, of each sort the oldest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Arbiter {
    entries: Vec<Entry>,
    tickets: u64,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

    /// What it comes after in the queue is less.
    fn place(&self) -> (bool, u64) {
        (self.around.is_empty(), self.ticket)
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

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn join(&mut self, entry: Entry) {
        let at = self.entries.partition_point(|other| other.place() < entry.place());
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
        let Entry { who, around, kind, .. } = entry;
        let mut ahead = self.waiting_for(who.device).filter(|other| other.place() < entry.place());
        let in_turn = match kind {
            Kind::Shared => !ahead.any(|other| other.kind == Kind::Alone),
            Kind::Alone => ahead.next().is_none(),
        };
        // The attempts around it run again when it does.
        let resume = running.iter().filter(|runner| around.contains(&runner.node));
        let mut begin = resume.map(|outer| (*outer, self.kind_of(outer.node))).chain([(*who, *kind)]);
        let belongs = *kind == Kind::Shared && self.belongs(who.device, around, running);
        belongs || in_turn && begin.all(|(runner, kind)| self.fits(runner, kind, around, running))
    }

    /// Whether an ordinary attempt that is not in the queue may begin.
    pub(super) fn has_room_for(&self, who: Runner, around: &[Node], running: &[Runner]) -> bool {
        let ahead = |other: &Entry| around.is_empty() || !other.around.is_empty();
        let mut waiting = self.waiting_for(who.device);
        self.belongs(who.device, around, running)
            || !waiting.any(|other| other.kind == Kind::Alone && ahead(other))
                && self.fits(who, Kind::Shared, around, running)
    }

    fn waiting_for(&self, device: Device) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.waits() && entry.who.device == device)
    }

    fn kind_of(&self, runner: Node) -> Kind {
        let holds = self.entries.iter().any(|entry| entry.holds && entry.who.node == runner);
        if holds { Kind::Alone } else { Kind::Shared }
    }

    /// Whether `who` may run beside those who run.
    fn fits(&self, who: Runner, kind: Kind, around: &[Node], running: &[Runner]) -> bool {
        let mut others = self.beside(who, around, running);
        match kind {
            Kind::Shared => !others.any(|other| self.kind_of(other.node) == Kind::Alone),
            Kind::Alone => others.next().is_none(),
        }
    }

    /// Those of `running` that are in the way of `who` when they or it want to be alone.
    pub(super) fn beside<'r>(
        &'r self,
        who: Runner,
        around: &'r [Node],
        running: &'r [Runner],
    ) -> impl Iterator<Item = &'r Runner> {
        let foreign = move |node| node != who.node && !around.contains(&node);
        let counts = move |node| around.is_empty() || !self.is_held_up(node);
        let here = running.iter().filter(move |runner| runner.device == who.device);
        here.filter(move |runner| foreign(runner.node) && counts(runner.node))
    }

    /// Whether an attempt inside this one waits.
    fn is_held_up(&self, node: Node) -> bool {
        self.entries.iter().any(|entry| entry.waits() && entry.around.contains(&node))
    }

    /// Whether an attempt around it runs on the device: it holds its memory in any case, and gives it back
    /// sooner when this one does not wait. Unless another one inside is alone, as where a task waits for
    /// several at a time.
    fn belongs(&self, device: Device, around: &[Node], running: &[Runner]) -> bool {
        let is_beside = |entry: &Entry| {
            !around.contains(&entry.who.node) && entry.around.iter().any(|outer| around.contains(outer))
        };
        let mut alone = self.entries.iter().filter(|entry| entry.holds && entry.who.device == device);
        running.iter().any(|runner| runner.device == device && around.contains(&runner.node))
            && !alone.any(|entry| is_beside(entry) && !self.is_held_up(entry.who.node))
    }
}
