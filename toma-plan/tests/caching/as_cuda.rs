//! The tables in the README of `pytorch_memlab`, from the recording of a CPU.

use toma_core::marks::Column;
use toma_plan::caching::as_cuda;
use toma_trace::{Contradiction, Label, Place, Recorder, ScopeId, ScopeKind, StorageId, ThreadId, Trace};

const MAIN: ThreadId = ThreadId(0);

fn begin(recorder: &mut Recorder, kind: ScopeKind, text: &str, line: u32) -> ScopeId {
    recorder.begin_scope(MAIN, Label::new(kind, text).at("src/main.rs", line))
}

/// Weights and bias of a linear layer of 100 by 100.
fn linear(recorder: &mut Recorder, line: u32, text: &str) -> Result<[StorageId; 2], Contradiction> {
    let scope = begin(recorder, ScopeKind::Line, text, line);
    let weight = recorder.birth(MAIN, &Place::HOST, 40_000)?;
    let bias = recorder.birth(MAIN, &Place::HOST, 400)?;
    recorder.end_scope(scope)?;
    Ok([weight, bias])
}

/// Two layers, and a call that makes and drops a third.
fn recorded() -> Result<Trace, Contradiction> {
    let mut recorder = Recorder::new();
    let outer = begin(&mut recorder, ScopeKind::Function, "outer", 5);
    linear(&mut recorder, 6, "    let a = linear(100, 100);")?;
    linear(&mut recorder, 7, "    let b = linear(100, 100);")?;
    let call = begin(&mut recorder, ScopeKind::Line, "    inner();", 8);
    let inner = begin(&mut recorder, ScopeKind::Function, "inner", 1);
    for storage in linear(&mut recorder, 2, "    let c = linear(100, 100);")? {
        recorder.death(MAIN, storage)?;
    }
    recorder.end_scope(inner)?;
    recorder.end_scope(call)?;
    recorder.end_scope(outer)?;
    Ok(recorder.finish())
}

#[test]
fn rows_as_a_gpu_counts_them() {
    let lines = as_cuda(&recorded().unwrap(), 1 << 40);
    assert_eq!(
        lines.to_string(),
        "\
## inner (src/main.rs)

    peak  reserved  line  code
  80.00K     2.00M     1  fn inner
 120.00K     2.00M     2      let c = linear(100, 100);

## outer (src/main.rs)

    peak  reserved  line  code
   0.00B     0.00B     5  fn outer
  40.00K     2.00M     6      let a = linear(100, 100);
  80.00K     2.00M     7      let b = linear(100, 100);
 120.00K     2.00M     8      inner();
"
    );
    let chosen = ["active_bytes.all.peak", "rise", "net", "hits"].map(|name| name.parse::<Column>().unwrap());
    assert_eq!(
        lines.function("inner").columns(chosen).to_string(),
        "\
## inner (src/main.rs)

    peak    rise    net  hits  line  code
  80.00K   0.00B  0.00B     0     1  fn inner
 120.00K  40.00K  0.00B     1     2      let c = linear(100, 100);
"
    );
}

#[test]
fn blocks_from_before_are_reserved_at_once() {
    let mut recorder = Recorder::new();
    recorder.existing(&Place::HOST, 1).unwrap();
    begin(&mut recorder, ScopeKind::Function, "f", 1);
    let lines = as_cuda(&recorder.finish(), 1 << 40);
    let figures = lines.figures("f", 1, &Place::device("cuda", 0)).unwrap();
    assert_eq!((figures.peak, figures.reserved), (512, 2 << 20));
}
