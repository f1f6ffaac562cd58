//! Inventories: the layout and the totals of `pytorch_memlab`.

use toma_trace::holdings::{Catalog, Inventory, Item, Names};
use toma_trace::{Access, Operand, Place, Recorder, Tick};

use crate::{MAIN, gpu};

/// A tensor of floats.
fn floats(place: &Place, name: &str, shape: &[u64]) -> Item {
    Item::new(place, name, shape, 4 * shape.iter().product::<u64>())
}

fn linear(place: &Place) -> Vec<Item> {
    vec![
        floats(place, "weight", &[1024, 1024]),
        floats(place, "bias", &[1024]),
        floats(place, "input", &[512, 1024]),
        floats(place, "loss", &[]),
    ]
}

fn gradients(place: &Place) -> Vec<Item> {
    let weight = floats(place, "weight.grad", &[1024, 1024]).gradient_of("weight");
    vec![floats(place, "bias.grad", &[1024]).gradient_of("bias"), weight]
}

#[test]
fn rows_stand_as_in_memlab() {
    let empty = floats(&gpu(), "nothing", &[0, 4]);
    let inventory = Inventory::new([linear(&gpu()), gradients(&gpu()), vec![empty]].concat());
    assert_eq!(
        inventory.allocated(&gpu(), 10_494_464 + 2048).to_string(),
        "\
Element type                                            Size  Used MEM
-------------------------------------------------------------------------------
Storage on cuda:0
weight                                          (1024, 1024)     4.00M
weight.grad                                     (1024, 1024)     4.00M
input                                            (512, 1024)     2.00M
bias                                                 (1024,)     4.00K
bias.grad                                            (1024,)     4.00K
loss                                                    (1,)   512.00B
older than the recording                                         2.00K
-------------------------------------------------------------------------------
Total Tensors: 2623489 \tUsed Memory: 10.01M
The allocated memory on cuda:0: 10.01M
-------------------------------------------------------------------------------
"
    );
}

/// A total of 0 would contradict the rows.
#[test]
fn blocks_without_shapes_have_an_unknown_total() {
    let place = Place::HOST;
    let labels = Inventory::new([Item::block(&place, "rows", 4096, 1)]);
    assert!(labels.to_string().contains("Total Tensors: unknown \tUsed Memory: 4.00K\n"), "{labels}");
    let nothing = Inventory::default().allocated(&place, 0);
    assert!(nothing.to_string().contains("Total Tensors: 0 \tUsed Memory: 0.00B\n"), "{nothing}");
    let one_has_a_shape = Inventory::new([Item::block(&place, "rows", 4096, 1), floats(&place, "x", &[3])]);
    let text = one_has_a_shape.to_string();
    assert!(text.contains("Total Tensors: 3 \tUsed Memory: 4.01K\n"), "{text}");
}

/// Flattened weights are one storage: bytes count once, elements each time.
#[test]
fn totals_and_aliases_of_an_lstm() {
    let place = Place::HOST;
    let flattened = |suffix: &str, owner: &str| {
        let name = |name: &str| format!("{name}{suffix}");
        let weights = Item::new(&place, &name("weight_ih_l0"), &[4096, 1024], 33_587_200);
        let weights = weights.alias(&name("bias_ih_l0"), &[4096], 8_388_608);
        let weights = weights.alias(&name("weight_hh_l0"), &[4096, 1024], 4_194_304);
        let weights = weights.alias(&name("bias_hh_l0"), &[4096], 8_392_704);
        if owner.is_empty() { weights } else { weights.gradient_of(owner) }
    };
    let mut items = vec![flattened("", ""), floats(&place, "input", &[10, 10, 1024])];
    let forward = Inventory::new(items.clone());
    assert_eq!((forward.elements(&place), forward.used_bytes(&place)), (8_499_200, 33_996_800));
    let text = format!("{forward:#}");
    assert!(
        text.contains(
            "\
weight_ih_l0                                    (4096, 1024)    32.03M
weight_hh_l0(->weight_ih_l0)                    (4096, 1024)     0.00B
bias_ih_l0(->weight_ih_l0)                           (4096,)     0.00B
bias_hh_l0(->weight_ih_l0)                           (4096,)     0.00B
input                                         (10, 10, 1024)   400.00K
"
        ),
        "{text}"
    );
    assert!(text.contains("Total Tensors: 8499200 \tUsed Memory: 32.42M\n"), "{text}");
    assert!(!forward.to_string().contains("->"));

    items.push(flattened(".grad", "weight_ih_l0"));
    items.push(floats(&place, "output", &[10, 10, 1024]));
    items.extend(["h", "c"].map(|name| floats(&place, name, &[1, 10, 1024])));
    let text = Inventory::new(items).to_string();
    assert!(text.contains("Total Tensors: 17018880 \tUsed Memory: 64.92M\n"), "{text}");
}

#[test]
fn an_inventory_of_a_trace_has_shapes_and_names() {
    let mut recorder = Recorder::new();
    let there = recorder.existing(&Place::HOST, 8).unwrap();
    let operator = recorder.begin_operator(MAIN, "aten::mm");
    let made = recorder.birth(MAIN, &gpu(), 32).unwrap();
    recorder.uses(operator, Operand::new(there, Access::Reads, &[2])).unwrap();
    recorder.uses(operator, Operand::new(made, Access::Reads, &[8])).unwrap();
    recorder.uses(operator, Operand::new(made, Access::Makes, &[4, 2])).unwrap();
    recorder.end_operator(operator).unwrap();
    recorder.death(MAIN, made).unwrap();
    let trace = recorder.finish();
    let catalog = Catalog::of(&trace, &Names::new());
    let died = trace[made].blocks[0].death.unwrap().tick;
    let born = trace[made].blocks[0].birth.unwrap().tick;
    let rows = |tick: Tick| {
        let inventory = Inventory::at(&trace, &catalog, tick);
        inventory.items().iter().map(|item| (item.name.clone(), item.shape.clone())).collect::<Vec<_>>()
    };
    let older = ("older than the recording".to_owned(), Some(vec![2]));
    assert_eq!(rows(born), [older.clone(), ("mm".to_owned(), Some(vec![4, 2]))]);
    assert_eq!(rows(died), [older]);
    assert_eq!(Inventory::at(&trace, &catalog, born).device(&gpu()).items().len(), 1);
}

#[test]
fn blocks_without_a_name_are_a_row_for_each_size_and_stand_by_their_bytes() {
    let place = Place::HOST;
    let inventory =
        Inventory::new(linear(&place)).unnamed(&place, [1 << 20, 8, 3 << 20, 1 << 20, 1 << 20, 8]);
    let rows: Vec<_> = inventory.items().iter().map(|item| (&*item.name, item.bytes)).collect();
    assert_eq!(
        rows,
        [
            ("weight", 4 << 20),
            ("unnamed (3 storages of 1.00M)", 3 << 20),
            ("unnamed", 3 << 20),
            ("input", 2 << 20),
            ("bias", 4096),
            ("unnamed (2 storages of 8.00B)", 16),
            ("loss", 4),
        ]
    );
    assert_eq!(inventory.elements(&place), 1_573_889, "of tensors that are known");
}

#[test]
fn uncounted_memory_is_next_to_the_allocators_figure() {
    let lent = Item::new(&gpu(), "lent", &[25], 100).uncounted();
    let inventory = Inventory::new([floats(&gpu(), "weight", &[128]), lent]).allocated(&gpu(), 1024);
    assert_eq!(
        inventory.used_bytes(&gpu()),
        1024 + 100,
        "nothing of it is rounded, or older than the recording"
    );
    let text = inventory.to_string();
    assert!(
        text.contains("older than the recording                                       512.00B\n"),
        "{text}"
    );
    assert!(text.contains("The allocated memory on cuda:0: 1.00K\n"), "{text}");
}

/// An example is a parameter that is a piece of a flat storage, with a gradient of its own.
#[test]
fn the_gradient_of_an_alias_follows_its_storage() {
    let place = Place::HOST;
    let flat = floats(&place, "first", &[100]).alias("second", &[50], 50);
    let gradient = floats(&place, "second.grad", &[50]).gradient_of("second");
    let inventory = Inventory::new([gradient, floats(&place, "other", &[90]), flat]);
    let names: Vec<_> = inventory.items().iter().map(|item| &*item.name).collect();
    assert_eq!(names, ["first", "second.grad", "other"]);
}
