//! What the living bytes of one moment are made of: functions, lines, operators, storages.

use std::collections::BTreeMap;

use super::stacks::{Frame, stacks};
use crate::holdings::{Catalog, Category};
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::{Block, Tick, Trace};

/// A rectangle as wide as the bytes it stands for.
pub(super) struct Part {
    pub(super) x: f64,
    pub(super) y: usize,
    pub(super) width: f64,
    pub(super) name: String,
    pub(super) size: Size,
    /// What colors it.
    pub(super) class: &'static str,
}

const WIDTH: f64 = 1000.0;
const ROW: usize = 18;
const LEAST_WIDTH: f64 = 0.5;

/// The parts of one place at one moment, those that hold others first.
pub(super) fn flame(trace: &Trace, catalog: &Catalog, place: &Place, at: Tick) -> Vec<Part> {
    let is_held = |block: &Block| block.place == *place && block.is_alive(at);
    let mut root = Node::default();
    for ((storage, block), stack) in trace.blocks().zip(stacks(trace, is_held)) {
        if is_held(block) {
            let category = catalog.category(storage);
            root.add(&stack, catalog.name(storage), category, block.bytes);
        }
    }
    let mut parts = Vec::new();
    let scale = WIDTH / as_float(root.bytes.max(1));
    root.lay_out(0.0, 0, scale, &mut parts);
    parts
}

#[derive(Default)]
struct Node {
    bytes: u64,
    category: Option<Category>,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, stack: &[Frame<'_>], name: &str, category: Category, bytes: u64) {
        self.bytes += bytes;
        if let Some((outermost, inner)) = stack.split_last() {
            return self.child(frame(outermost)).add(inner, name, category, bytes);
        }
        let storage = self.child(name.to_owned());
        storage.bytes += bytes;
        storage.category = Some(category);
    }

    fn child(&mut self, name: String) -> &mut Self {
        self.children.entry(name).or_default()
    }

    fn lay_out(&self, mut x: f64, y: usize, scale: f64, parts: &mut Vec<Part>) {
        for (name, child) in &self.children {
            let width = as_float(child.bytes) * scale;
            if width >= LEAST_WIDTH {
                let class = child.category.map_or("frame", class);
                parts.push(Part { x, y, width, name: name.clone(), size: Size::of(child.bytes), class });
                child.lay_out(x, y + ROW, scale, parts);
            }
            x += width;
        }
    }
}

fn frame(frame: &Frame<'_>) -> String {
    let Frame { file, line, name } = frame;
    if file.is_empty() { (*name).to_owned() } else { format!("{name} {file}:{line}") }
}

/// The first word of its name.
fn class(category: Category) -> &'static str {
    category.name().split(' ').next().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a drawing is a thousand points wide")]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}
