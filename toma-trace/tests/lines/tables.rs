//! Tables of lines: their functions, devices and columns, and their format.

use std::sync::Arc;
use std::time::Duration;

use toma_core::marks::Column;
use toma_trace::Place;
use toma_trace::lines::{LineId, Lines, Rows, Source, Sources, Stack};

use crate::gpu;

/// Two functions, of which the second in the file was added first.
fn sources() -> (Sources, LineId, LineId) {
    let mut sources = Sources::new();
    let second = sources.add(Source::new("net::loss", "src/net.rs").line(20, "fn loss() {"));
    let step = Source::new("step", "src/net.rs").line(3, "fn step() {").line(4, "    let Ü = loss();");
    let first = sources.add(step.line(5, "    unreachable!();"));
    (sources, first, second)
}

/// The step allocates on the host, and the loss that it calls on the GPU.
fn counted(first: LineId, second: LineId) -> Rows {
    let rows = Rows::new(&[(Place::HOST, 0), (gpu(), 0), (Place::device("cuda", 1), 0)]);
    let rows = Arc::new(rows.clock(|| Duration::from_micros(7)));
    let [host, gpu, _] = rows.devices().map(|(device, _)| device).collect::<Vec<_>>()[..] else {
        unreachable!()
    };
    let mut stack = Stack::new(&rows);
    stack.enter(first);
    stack.mark(first.nth(1));
    let born = stack.allocated(host, 2048);
    stack.enter(second);
    stack.reserved(gpu, 2 << 20);
    stack.allocated(gpu, 512);
    stack.out_of_memory(gpu);
    stack.leave();
    stack.freed(host, 2048, Some(born));
    drop(stack);
    Arc::into_inner(rows).unwrap()
}

fn lines() -> Lines {
    let (sources, first, second) = sources();
    Lines::new(&sources, &counted(first, second))
}

#[test]
fn functions_stand_in_the_order_of_the_file_and_devices_side_by_side() {
    assert_eq!(
        lines().to_string(),
        "\
## step (src/net.rs)

 host peak  cuda:0 peak  host reserved  cuda:0 reserved  line  code
     0.00B        0.00B          0.00B            0.00B     3  fn step() {
     2.00K      512.00B          0.00B            2.00M     4      let Ü = loss();
                                                            5      unreachable!();

## net::loss (src/net.rs)

 host peak  cuda:0 peak  host reserved  cuda:0 reserved  line  code
     2.00K      512.00B          0.00B            2.00M    20  fn loss() {
"
    );
}

#[test]
fn every_column_of_one_device() {
    let lines = lines().device(&gpu()).function("loss").columns(Column::ALL);
    assert_eq!(
        lines.to_string(),
        "\
## net::loss (src/net.rs)

    peak  reserved     rise  current  allocated  freed      net     kept  fetched  offloaded  backward  hits  ooms    time  line  code
 512.00B     2.00M  512.00B  512.00B    512.00B  0.00B  512.00B  512.00B    0.00B      0.00B     0.00B     0     1  0.00ns    20  fn loss() {
"
    );
}

#[test]
fn an_empty_table_is_marked() {
    let text = "no profiled function was called\n";
    let missing = lines().function("forward").to_string();
    assert!(missing.starts_with("no function forward was called; these were: "), "{missing}");
    let missing = lines().device(&Place::device("cuda", 7)).to_string();
    assert!(missing.starts_with("no device cuda:7 was recorded; these were: "), "{missing}");
    let (sources, ..) = sources();
    assert_eq!(Lines::new(&sources, &Rows::new(&[])).to_string(), text);
}

#[test]
fn bytes_of_no_line_are_reported_beneath() {
    let (sources, ..) = sources();
    let rows = Arc::new(Rows::new(&[(Place::HOST, 0)]));
    let host = rows.device(&Place::HOST).unwrap();
    let mut stack = Stack::new(&rows);
    let born = stack.allocated(host, 1024);
    stack.allocated(host, 512);
    stack.freed(host, 1024, Some(born));
    assert_eq!(
        Lines::new(&sources, &rows).to_string(),
        "no profiled function was called\n\nin no line, on host: 1.50K allocated, 1.00K freed, 512.00B kept\n"
    );
}

#[test]
fn columns_are_read_by_both_names() {
    for column in Column::ALL {
        assert_eq!(column.name().parse(), Ok(column));
    }
    for (name, column) in [
        ("active_bytes.all.peak", Column::Peak),
        ("allocated_bytes.all.current", Column::Current),
        ("active_bytes.all.allocated", Column::Allocated),
        ("active_bytes.all.freed", Column::Freed),
        ("reserved_bytes.all.peak", Column::Reserved),
        ("num_ooms", Column::Ooms),
    ] {
        assert_eq!(name.parse(), Ok(column), "{name}");
    }
    for name in ["Peak", "active_bytes.small_pool.peak", "reserved_bytes.all.current", "active_bytes.all"] {
        assert!(name.parse::<Column>().is_err(), "{name}");
    }
    assert_eq!(
        "paek".parse::<Column>().unwrap_err().to_string(),
        "unknown column \"paek\": there are peak, reserved, rise, current, allocated, freed, net, kept, fetched, \
         offloaded, backward, hits, ooms, time"
    );
}

#[test]
fn a_line_is_found_by_its_number() {
    let (sources, first, second) = sources();
    let text = |line| sources.get(line).map(|(source, line)| (source.name.as_str(), line.number));
    assert_eq!(text(second), Some(("net::loss", 20)));
    assert_eq!(text(first.nth(2)), Some(("step", 5)));
    assert_eq!(text(first.nth(3)), None);
}

/// Three times the work keeps three times as many bytes; events in no line are compared, too.
#[test]
fn lines_that_keep_more_come_first() {
    let (sources, first, second) = sources();
    let once = counted(first, second);
    let more = Arc::new(counted(first, second));
    let [host, gpu, _] = more.devices().map(|(device, _)| device).collect::<Vec<_>>()[..] else {
        unreachable!()
    };
    let mut stack = Stack::new(&more);
    stack.allocated(host, 7);
    stack.enter(first.nth(1));
    stack.allocated(gpu, 1024);
    stack.leave();
    drop(stack);
    let (earlier, later) = (Lines::new(&sources, &once), Lines::new(&sources, &more));
    assert_eq!(
        later.diff(&earlier).to_string(),
        "1.00K more on cuda:0 at src/net.rs:4: let Ü = loss();\n7.00B more on host at no line\n"
    );
    assert_eq!(
        earlier.diff(&later).to_string(),
        "7.00B less on host at no line\n1.00K less on cuda:0 at src/net.rs:4: let Ü = loss();\n"
    );
    assert_eq!(later.diff(&later).to_string(), "every line keeps what it kept\n");
}
